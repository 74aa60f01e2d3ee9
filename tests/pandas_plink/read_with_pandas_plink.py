"""Read filesets with pandas-plink, in its own environment, and save what it reads.

    python read_with_pandas_plink.py OUT PEOPLE_PER_CHUNK PREFIX...

OUT/NAME.npz has the genotypes and every coordinate of read_plink1_bin; OUT/NAME.error has the error
of a fileset that pandas-plink refuses.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
from pandas_plink import Chunk, read_plink1_bin

warnings.simplefilter("ignore")
out, people = Path(sys.argv[1]), int(sys.argv[2])
for prefix in map(Path, sys.argv[3:]):
    try:
        array = read_plink1_bin(
            f"{prefix}.bed", verbose=False, chunk=Chunk(nsamples=people, nvariants=16)
        )
        columns = {name: array[name].values for name in array.coords}
        columns = {n: v.astype(str) if v.dtype == object else v for n, v in columns.items()}
        np.savez(out / f"{prefix.name}.npz", genotypes=array.values, **columns)
    except Exception as error:  # noqa: BLE001  # whatever it is, the test compares it
        (out / f"{prefix.name}.error").write_text(f"{type(error).__name__}: {error}")
