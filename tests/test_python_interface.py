"""The public functions: README's example, what they return, and what they leave alone."""

import logging
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Thread

import numpy as np
import pandas as pd
import pytest
import threadpoolctl  # noqa: F401  # its import sets an environment variable
from support.command_io import simulated
from support.crash import exit_code
from support.documented_code import blocks

import primo_scale as ps
from primo_scale.run.options import Fit, GenotypeFiles, Model, OutcomeTables, Privacy
from primo_scale.storage.files import files_private
from primo_scale.storage.stores import encrypted_with

ROOT = Path(__file__).resolve().parents[1]
PANEL, TRAIN = "demo/1000g_eur343_chr22", "demo-run/train"
TABLES = {"pheno": f"{TRAIN}.pheno.tsv", "pheno_bounds": f"{TRAIN}.pheno-bounds.tsv"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("readme")
    (folder / "demo").symlink_to(ROOT / "demo")
    (folder / "demo-run").mkdir()
    simulated(folder / "demo-run/train", 2000, 1, variants=100, phenotypes=2)
    return folder


@pytest.fixture
def in_folder(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return folder


def example() -> str:
    ((_, code),) = blocks("README.md", "python")
    return code


def state_of_the_process() -> tuple[object, ...]:
    logger = logging.getLogger("primo_scale")
    umask = os.umask(0)
    os.umask(umask)
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    log = (list(logger.handlers), logger.level, logger.propagate)
    return handlers, log, dict(os.environ), umask, Path.cwd()


def test_the_example_of_the_readme_releases_and_leaves_the_process_alone(in_folder, capsys) -> None:
    before = state_of_the_process()
    names: dict[str, object] = {}
    exec(compile(example(), "README.md", "exec"), names)
    assert state_of_the_process() == before
    assert "Forecast" in capsys.readouterr().out
    request = names["request"]
    assert isinstance(request, ps.ReleaseRequest)

    release = ps.open_release(request.out)
    assert (release.private, release.epsilon, release.delta) == (True, 5.0, 1e-9)
    assert release.phenotypes == ("QT1", "QT2") and release.genome_build == "NR"  # too few known
    assert list(release.weights.columns) == [
        "ID", "effect_allele", "other_allele", "chrom", "pos", "QT1", "QT2",
    ]  # fmt: skip
    plain = pd.read_csv(request.out / "weights.tsv.gz", sep="\t", dtype={"chrom": str})
    pd.testing.assert_frame_equal(release.weights, plain[release.weights.columns])
    assert release.weights[["QT1", "QT2"]].to_numpy().dtype == np.float64
    assert release.covariates.loc["(intercept)"].notna().all()

    verdict = ps.verify(request.out)
    assert verdict.ok and verdict.private and not verdict.problems
    assert repr(verdict).startswith("Verification(ok=True, private=True, checks=")
    again = ps.release(request)  # a retry replays: one charge, one release
    pd.testing.assert_frame_equal(again.weights, release.weights)
    assert again == release and len({again, release}) == 1
    log = (request.work_dir / "run.log").read_text()
    assert "--epsilon 5.0" in log and log.splitlines()[-1].endswith("done")


@pytest.mark.parametrize("block", [files_private, partial(encrypted_with, None)])
def test_a_run_in_another_thread_waits_for_the_umask_and_the_environment(block) -> None:
    def run() -> None:
        with block():
            pass

    with ThreadPoolExecutor(1) as threads:
        with files_private():
            other = threads.submit(run)
            with pytest.raises(TimeoutError):
                other.result(timeout=0.2)
        other.result(timeout=60)


def test_a_forked_process_does_not_wait_for_threads_that_it_lacks() -> None:
    def run() -> None:
        with files_private(), encrypted_with(None):
            pass

    codes: list[int] = []
    with files_private():
        thread = Thread(target=lambda: codes.append(exit_code(run)))
        thread.start()
        thread.join()
    assert codes == [0]


@pytest.mark.slow
def test_a_worker_that_imports_the_script_does_not_release_again(in_folder, tmp_path) -> None:
    """Python's workers run a script without a guard again, here with places of their own."""
    paths = '"demo-run/from-python" + str(os.getpid()), ledger=f"{os.getpid()}.sqlite"'
    lines = example().replace('"demo-run/from-python"', paths).splitlines()
    lines = ["import multiprocessing, os", *(line for line in lines if "ps.plan" not in line)]
    lines.append("worker = multiprocessing.get_context('spawn').Process(target=print)")
    lines += ["worker.start()", "worker.join()"]
    script = tmp_path / "script.py"
    script.write_text("\n".join(lines))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert "Make the calls of the script below `if __name__ == '__main__':`" in done.stderr
    assert len(list(in_folder.glob("demo-run/from-python?*/release.json"))) == 1
    assert len(list(in_folder.glob("*.sqlite"))) == 1


@pytest.mark.slow
def test_the_stages_make_the_release_of_the_whole(in_folder) -> None:
    """Without noise the weights of both ways are the same bytes."""
    tables = {**TABLES, "non_private": True}
    store = ps.ingest(bfile=TRAIN, out="g.zarr", chunk_variants=np.int64(100), chunk_samples=2000)
    assert ps.open_genotypes("g.zarr").shape == (store.n_variants, store.n_samples) == (100, 2000)
    assert repr(store).endswith("n_samples=2000, n_variants=100, chunk_shape=(100, 2000))")
    summed = ps.accumulate(genotypes="g.zarr", work_dir="w", **tables)
    assert summed.work_dir == Path("w") and len(summed.sha256) == 64
    ps.finalize(work_dir="w", out="by-stages", non_private=True)
    ps.release(ps.ReleaseRequest(bfile=TRAIN, out="at-once", **tables))
    one, other = (Path(name, "weights.tsv.gz").read_bytes() for name in ("by-stages", "at-once"))
    assert one == other
    assert not ps.open_release("at-once").private and ps.open_release("at-once").epsilon is None


def test_a_plan_changes_nothing_and_has_the_numbers_of_the_run(in_folder) -> None:
    request = ps.ReleaseRequest(bfile=TRAIN, **TABLES, epsilon=5, delta=1e-9, out="planned")
    before = sorted(in_folder.rglob("*"))
    planned = ps.plan(request)
    assert sorted(in_folder.rglob("*")) == before
    assert planned.design.layout.n_variants == 100 and planned.design.n_samples == 2000
    assert 0 < planned.accuracy.r_squared < planned.accuracy.without_noise < 0.3
    assert re.fullmatch(
        r"Plan\(2000 people, 100 variants, 2 phenotypes; R\^2 0\.\d+; warnings: 3\)", repr(planned)
    )
    assert planned.sums.tasks == 2


def test_a_plan_returns_its_warnings_and_prints_none_unasked(
    in_folder, tmp_path, monkeypatch, capsys
) -> None:
    """Their counts are private, and standard error is often the output file of a batch job."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    bounds = tmp_path / "bounds.tsv"
    bounds.write_text("name\tlower\tupper\nQT1\t-1\t1\n")
    request = ps.ReleaseRequest(
        bfile=TRAIN,
        **{**TABLES, "pheno_bounds": bounds},
        pheno_name="QT1",
        epsilon=5,
        delta=1e-9,
        out="planned",
    )
    planned = ps.plan(request)
    assert any(re.match(r"QT1: \d+\.\d% of 2000 values lie outside", w) for w in planned.warnings)
    assert capsys.readouterr().err == ""
    logging.basicConfig(format="%(message)s")
    again = ps.plan(request)
    assert capsys.readouterr().err == "".join(f"{warning}\n" for warning in again.warnings)


def test_errors_are_exceptions_with_one_line(in_folder) -> None:
    for kind, line, call in (
        (ps.UsageError, "epsilon: needs `delta`", lambda: Privacy(epsilon=1)),
        (ps.UsageError, "ridge: is out of range", lambda: Fit(ridge=float("nan"))),
        (ps.UsageError, "people: are too few .*got 31; limit at least 32", lambda: ps.forecast(
            ld_panel="p", ref_freq="f", people=(10**5, 31)
        )),
        (ps.UsageError, "a release has the columns of `pheno` or", lambda: ps.party_release(
            **{**PARTY, "pheno": None, "pheno_bounds": None, "out": "o"}
        )),
        (ps.UsageError, "phenos: no such field", lambda: ps.ingest(bfile="a", out="o", phenos=1)),
        (ps.InputError, "demo: is a directory", lambda: ps.ingest(bgen="demo", out="n.zarr")),
    ):  # fmt: skip
        with pytest.raises(kind, match=line):
            call()
    assert issubclass(ps.InputError, ps.PrimoError)


@pytest.mark.parametrize("name", ["a\nb", "a\tb", "a\x1b", "a\x85", "a\u2028b", "a\u202eb"])
def test_a_name_that_a_release_repeats_is_one_line(name: str) -> None:
    for make in (
        lambda: Model(ref_freq=f"folder/{name}"),
        lambda: Model(ld_blocks=name),
        lambda: Model(ld_panel=name, ref_freq="f"),
        lambda: OutcomeTables("p", "b", pc_loadings=name),
        lambda: ps.ReleaseRequest(
            bfile="a", pheno="p", pheno_bounds="b", non_private=True, out="r", cohort=name
        ),
    ):
        with pytest.raises(ps.UsageError, match="repeats this"):
            make()
    assert Model(ref_freq="Häufigkeit 身長.afreq").ref_freq == Path("Häufigkeit 身長.afreq")


def test_numbers_and_texts_of_equal_value_make_equal_requests() -> None:
    """A charge is found again by its request: 3 and 3.0 must be one."""
    one, other = Privacy(epsilon=3, delta=1e-6), Privacy(epsilon=3.0, delta="1e-6")
    assert repr(one) == repr(other) and one == other
    files = GenotypeFiles(Path("a"), chromosomes="1-3")
    assert files == GenotypeFiles(["a"], chromosomes=("1", "2", "3"))


PARTY = {"party": "p", "roster": "r", "party_key": "k", "epsilon": 1, "delta": 1e-6,
         "pheno": "t", "pheno_bounds": "b"}  # fmt: skip
BUDGETED = {"pheno": "p", "pheno_bounds": "b", "epsilon": 5, "delta": 1e-6}


WRONG_TYPES = {
    "subsample: is of the wrong type (found True,": lambda: Privacy(subsample=True),
    "non_private: is of the wrong type (found 'False', expected bool)": lambda: Privacy(
        non_private="False"
    ),
    "(found 'five', expected float or None)": lambda: Privacy(epsilon="five"),
    "(found list of int, str, expected one or several str or": lambda: OutcomeTables(
        "p", "b", pheno_name=["QT1", 2]
    ),
    "ledger: begins with ~, which only a shell takes": lambda: (
        ps.finalize(work_dir="w", out="o", ledger="~/ledger", non_private=True)
    ),
    "(found 3, expected path or URL or DataArray of read_plink1_bin or None)": lambda: (
        ps.ReleaseRequest(genotypes=3, **BUDGETED, out="r")
    ),
    "(found Privacy, expected ReleaseRequest, or its fields": lambda: ps.release(Privacy()),
}  # fmt: skip


@pytest.mark.parametrize("line", WRONG_TYPES)
def test_a_value_of_the_wrong_type_is_refused_where_it_is_given(line: str) -> None:
    with pytest.raises(ps.UsageError, match=re.escape(line)):
        WRONG_TYPES[line]()


@pytest.mark.slow
def test_public_names_are_imported_when_they_are_used() -> None:
    code = (
        "import sys, primo_scale; heavy = {'numpy', 'dask', 'pandas', 'attrs'} & set(sys.modules); "
        "assert not heavy, heavy; "
        "assert all(getattr(primo_scale, name) for name in primo_scale.__all__)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
    with pytest.raises(AttributeError, match="no attribute 'relaese'"):
        _ = ps.relaese
