"""pandas-plink reads the fixtures: its genotypes are ours, but for the chunks that we refuse.

It runs in an environment of its own, which ``make other-environments`` creates.
"""

from pathlib import Path

import dask.array
import numpy as np
import pytest
import xarray
from presence import ROOT, installed
from processes import run_program

from primo_scale.errors import PrimoError
from primo_scale.genotypes.ingest import ingest
from primo_scale.genotypes.pandas_plink import from_pandas_plink
from primo_scale.genotypes.source import SourceFiles
from primo_scale.genotypes.store import open_genotypes

EDGE = ROOT / "tests" / "reference" / "data" / "edge" / "plink_made"
FILESETS = [
    "a1a2_swapped", "bad_bim_nonint_pos", "bad_magic", "base_n43_m61", "degenerate", "dupid",
    "fam_crlf_mixed_ws", "n1_m61", "samplemajor_n43_m61", "sexchr_PAR_codes",
]  # fmt: skip
# Read by pandas-plink as if nothing were wrong with them; both plinks refuse them too.
REFUSED_BY_US_ALONE = ["bad_trailing_byte", "bim_split_chromosome", "fam_dup_sample"]

pytestmark = [pytest.mark.oracle, pytest.mark.slow]


def read_all(folder: Path, people_per_chunk: int) -> Path:
    script = Path(__file__).with_name("read_with_pandas_plink.py")
    prefixes = [EDGE / name for name in (*FILESETS, *REFUSED_BY_US_ALONE)]
    run_program(installed("pandas_plink", "python"), script, folder, people_per_chunk, *prefixes)
    return folder


@pytest.fixture(scope="module")
def read_by_pandas_plink(tmp_path_factory):
    return read_all(tmp_path_factory.mktemp("read"), 16)


def array_of(path: Path, people_per_chunk: int = 16) -> xarray.DataArray:
    found = dict(np.load(path))
    values = dask.array.from_array(found.pop("genotypes"), chunks=(people_per_chunk, 16))
    of_people = ("sample", "fid", "iid", "father", "mother", "gender", "trait")
    coords = {n: ("sample" if n in of_people else "variant", v) for n, v in found.items()}
    return xarray.DataArray(values, dims=("sample", "variant"), coords=coords)


def ours(name: str, folder: Path) -> np.ndarray:
    ingest(SourceFiles((EDGE / name,)), folder / "ours")
    return open_genotypes(folder / "ours").values


@pytest.mark.parametrize("name", [*FILESETS, *REFUSED_BY_US_ALONE])
def test_it_reads_the_genotypes_that_we_read(name, read_by_pandas_plink, tmp_path):
    path = read_by_pandas_plink / f"{name}.npz"
    try:
        expected = ours(name, tmp_path)
    except PrimoError:
        assert path.exists() == (name in REFUSED_BY_US_ALONE)
        return
    if name == "bad_bim_nonint_pos":  # plink reads the leading integer, pandas-plink refuses it
        assert not path.exists()
        return
    from_pandas_plink(array_of(path), tmp_path / "theirs")
    np.testing.assert_array_equal(open_genotypes(tmp_path / "theirs").values, expected)
