"""Make stores OUT/NAME.zarr of filesets as pandas-plink reads them, or OUT/NAME.error if refused.

python ingest_arrays.py OUT PEOPLE VARIANTS COUNTED PREFIX...
"""

import sys
import warnings
from pathlib import Path

from pandas_plink import Chunk, read_plink1_bin

from primo_scale import from_pandas_plink

warnings.simplefilter("ignore")
out, people, variants, counted = Path(sys.argv[1]), *map(int, sys.argv[2:4]), sys.argv[4]
for prefix in map(Path, sys.argv[5:]):
    try:
        array = read_plink1_bin(
            f"{prefix}.bed", verbose=False, ref=counted, chunk=Chunk(people, variants)
        )
        from_pandas_plink(array.chunk(sample=16), out / f"{prefix.name}.zarr")
    except Exception as error:  # noqa: BLE001  # whatever it is, the test compares it
        (out / f"{prefix.name}.error").write_text(f"{type(error).__name__}: {error}")
