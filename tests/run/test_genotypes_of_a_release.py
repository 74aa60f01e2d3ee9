"""Genotypes of a release that are no files: a store, and an array as pandas-plink gives it."""

import pytest
from support.command_io import digest_in
from support.ingest_runs import read_plink1_bin
from support.small_cohort import command, outcomes, succeeded

import primo_scale as ps
from primo_scale.cli.commands import release as release_command
from primo_scale.genotypes.store import open_genotypes

PRIVACY = {"epsilon": 1, "delta": 1e-6, "accept_noise": True}


@pytest.fixture
def array(ingested):
    return read_plink1_bin(ingested.folder / "cohort", chunks=(16, 4))


def request_of(genotypes, cohort, name="release", **options):
    tables = {"pheno": cohort.folder / "pheno.tsv", "pheno_bounds": cohort.folder / "bounds.tsv"}
    places = {"out": cohort.folder / name, "ledger": cohort.folder / f"{name}.sqlite"}
    return ps.ReleaseRequest(**genotypes, **tables, **places, **(options or PRIVACY))


def statistics(cohort, name):
    log = (cohort.folder / f"{name}.work" / "run.log").read_text()
    return digest_in("\n".join(line.partition(" ")[2] for line in log.splitlines()))


def test_an_array_and_a_store_give_the_statistics_of_the_files(array, ingested):
    kinds = {
        "files": {"bfile": ingested.folder / "cohort"},
        "array": {"genotypes": array},
        "store": {"genotypes": ingested.store},
    }
    for name, genotypes in kinds.items():
        # The noise of means would enter the sums.
        request = request_of(genotypes, ingested, name, non_private=True)
        assert ps.plan(request).design.n_samples == 44
        assert not request.work_dir.exists()
        ps.release(request)
    assert len({statistics(ingested, name) for name in kinds}) == 1
    assert not (ingested.folder / "store.work" / "genotypes.zarr").exists()
    assert {path.name for path in (ingested.folder / "array.work").glob("genotypes*")} == {
        "genotypes.zarr"
    }


def test_a_run_of_an_array_begins_again_and_refuses_another_array(array, ingested, monkeypatch):
    request = request_of({"genotypes": array}, ingested)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("primo_scale.genotypes.ingest.write_partition", interrupted)
        ps.release(request)
    assert (request.work_dir / "genotypes.zarr.partial").is_dir()
    ps.release(request)
    assert not (request.work_dir / "genotypes.zarr.partial").exists()
    statement = (request.out / "release.json").read_bytes()
    ps.release(request)
    assert (request.out / "release.json").read_bytes() == statement
    with pytest.raises(ps.InputError, match=r"is not the result of this request .*other sources"):
        ps.release(request_of({"genotypes": 2 - array}, ingested))


def interrupted(*_):
    raise KeyboardInterrupt


def test_the_command_uses_a_store_where_it_is_and_never_deletes_it(ingested):
    """Also a store with the name that the run's own would have."""
    work = ingested.folder / "release.work"
    work.mkdir(mode=0o700)
    store = ingested.store.rename(work / "genotypes.zarr")
    words = ["--genotypes", store, *outcomes(ingested.folder), "--epsilon", 1, "--delta", 1e-6,
             "--accept-noise", "--ledger", ingested.ledger, "--out", ingested.out]  # fmt: skip
    succeeded(command(release_command, *words, "--dry-run"))
    succeeded(command(release_command, *words, "--purge-intermediates"))
    assert open_genotypes(store).shape == (6, 44)
    assert ps.verify(ingested.out)
