"""Fileset of the ingest tests, and the same genotypes in other formats."""

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from support.filesets import copy_fileset
from support.ingest_runs import FORMATS

from primo_scale.genotypes.source import SourceFiles


@pytest.fixture
def base(reference: Path, tmp_path: Path) -> Path:
    return copy_fileset(reference / "data/edge/plink_made/base_n43_m61", tmp_path / "base")


@pytest.fixture
def files_of(request, tmp_path) -> Callable[[str, str], SourceFiles]:
    """Return a function that gives the files of a fixture in a format."""

    def find(name: str, kind: str) -> SourceFiles:
        path, sample = FORMATS / name, None
        if kind == "bfile" and name != "odd":
            path = request.getfixturevalue("reference") / "data/edge/plink_made" / name
        elif kind == "vcz":
            path = tmp_path / f"{name}.vcz"
            zipfile.ZipFile(FORMATS / f"{name}.vcz.zip").extractall(path)
        elif kind == "vcf":
            path = FORMATS / f"{name}.vcf.gz"
        elif kind == "bgen":
            path, sample = FORMATS / f"{name}.bgen", FORMATS / f"{name}.sample"
            sample = sample if sample.exists() else None
        return SourceFiles((path,), kind, sample)

    return find
