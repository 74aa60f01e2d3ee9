"""The public functions: README's example, what they return, and what they leave alone."""

import errno
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from functools import partial
from inspect import getdoc, isfunction, signature
from pathlib import Path
from threading import Thread
from typing import Any

import attrs
import numpy as np
import pandas as pd
import pytest
import threadpoolctl  # noqa: F401  # its import sets an environment variable
from support.command_io import simulated
from support.crash import exit_code
from support.documented_code import blocks

import primo_scale as ps
from primo_scale.publication import open_release as open_release_module
from primo_scale.run.fields import options_of
from primo_scale.storage.encryption import encrypted_with
from primo_scale.storage.files import files_private

ROOT = Path(__file__).resolve().parents[1]
PANEL = "demo/1000g_eur343_chr22"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files that README's example names, of fewer people and variants."""
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
    tables = ps.OutcomeTables("demo-run/train.pheno.tsv", "demo-run/train.pheno-bounds.tsv")
    privacy, files = ps.Privacy(non_private=True), ps.GenotypeFiles("demo-run/train")
    store = ps.ingest(files, "g.zarr", chunk_shape=np.array([100, 2000]))
    assert ps.open_genotypes("g.zarr").shape == (store.n_variants, store.n_samples) == (100, 2000)
    assert repr(store).endswith("n_samples=2000, n_variants=100, chunk_shape=(100, 2000))")
    summed = ps.accumulate(
        ps.AccumulateRequest(genotypes="g.zarr", outcomes=tables, privacy=privacy, work_dir="w")
    )
    assert summed.work_dir == Path("w") and len(summed.sha256) == 64
    ps.finalize(ps.FinalizeRequest(work_dir="w", out="by-stages", non_private=True))
    ps.release(ps.ReleaseRequest(genotypes=files, outcomes=tables, privacy=privacy, out="at-once"))
    one, other = (Path(name, "weights.tsv.gz").read_bytes() for name in ("by-stages", "at-once"))
    assert one == other
    assert not ps.open_release("at-once").private and ps.open_release("at-once").epsilon is None


def test_a_plan_changes_nothing_and_has_the_numbers_of_the_run(in_folder) -> None:
    request = ps.ReleaseRequest(
        genotypes=ps.GenotypeFiles("demo-run/train"),
        outcomes=ps.OutcomeTables("demo-run/train.pheno.tsv", "demo-run/train.pheno-bounds.tsv"),
        privacy=ps.Privacy(epsilon=5, delta=1e-9),
        out="planned",
    )
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
        genotypes=ps.GenotypeFiles("demo-run/train"),
        outcomes=ps.OutcomeTables("demo-run/train.pheno.tsv", bounds, pheno_name="QT1"),
        privacy=ps.Privacy(epsilon=5, delta=1e-9),
        out="planned",
    )
    planned = ps.plan(request)
    assert any(re.match(r"QT1: \d+\.\d% of 2000 values lie outside", w) for w in planned.warnings)
    assert capsys.readouterr().err == ""
    logging.basicConfig(format="%(message)s")
    again = ps.plan(request)
    assert capsys.readouterr().err == "".join(f"{warning}\n" for warning in again.warnings)


def test_errors_are_exceptions_with_one_line(in_folder) -> None:
    with pytest.raises(ps.UsageError, match=r"^--pheno-bounds: public bounds are needed"):
        ps.OutcomeTables("demo-run/train.pheno.tsv")
    with pytest.raises(ps.UsageError, match=r"^--privacy: not a valid choice"):
        ps.Privacy(unit="half")  # type: ignore[arg-type]
    with pytest.raises(ps.UsageError, match="go together"):
        ps.Privacy(epsilon=1)
    with pytest.raises(ps.UsageError, match=r"^--pheno-name: names no phenotype"):
        ps.OutcomeTables("p", "b", pheno_name=[])
    with pytest.raises(ps.InputError, match=r"is no DataArray .* \(found dimensions none"):
        ps.from_pandas_plink(pd.DataFrame(), "n.zarr")  # type: ignore[arg-type]
    with pytest.raises(ps.UsageError, match=r"^--people: are too few .*got 31; limit at least 32"):
        ps.ForecastRequest(ld_panel="p", ref_freq="f", people=(10**5, 31))
    with pytest.raises(ps.UsageError, match=r"columns of --pheno or of --genotypes\. Give one"):
        ps.PartyReleaseRequest(**{**PARTY, "pheno": None, "pheno_bounds": None, "out": "o"})
    with pytest.raises(ps.UsageError, match=r"^--ridge: is out of range"):
        ps.Fit(ridge=float("nan"))
    with pytest.raises(ps.UsageError, match=r"^--shrinkage: not a valid choice \(got ridge"):
        ps.Fit(shrinkage="ridge")  # which is the rule of --ridge
    people = {"bfile": "demo-run/train", "pheno": "demo-run/train.pheno.tsv"}
    with pytest.raises(ps.InputError, match=r"^none: no such file"):
        ps.evaluate(ps.EvaluationRequest(weights="none", out="evaluation", **people))
    with pytest.raises(ps.InputError, match=r"^none\.toml: no such file"):
        ps.Execution(cluster="none.toml")
    with pytest.raises(ps.InputError, match="demo: is a directory, not a file"):
        ps.Execution(cluster="demo")
    for files in (ps.GenotypeFiles(bgen="demo"), ps.GenotypeFiles(vcf=".")):
        with pytest.raises(ps.InputError, match="is a directory, not a file"):
            ps.ingest(files, "n.zarr")
    with pytest.raises(ps.InputError, match=r"none\.bed: No such file|none.*no such file"):
        ps.ingest(ps.GenotypeFiles("none"), "n.zarr")
    assert issubclass(ps.InputError, ps.PrimoError)


@pytest.mark.parametrize(
    ("error", "kind", "line"),
    [
        (OSError(errno.ENOSPC, "No space left", "x"), ps.ResourceError, "x: the disk is full"),
        (OSError(errno.EIO, "Input/output error", "x"), ps.InputError, "x: Input/output error"),
        (MemoryError(), ps.ResourceError, "not enough memory"),
        (RuntimeError("a bug"), RuntimeError, "a bug"),
    ],
)
def test_an_error_of_the_system_is_raised_in_the_words_of_the_commands(
    error, kind, line, monkeypatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(open_release_module, "read_document", fail)
    monkeypatch.setattr(Path, "is_file", lambda _: True)
    with pytest.raises(kind, match=f"^{line}"):
        ps.open_release("x")


@pytest.mark.parametrize("name", ["a\nb", "a\tb", "a\x1b", "a\x85", "a\u2028b", "a\u202eb"])
def test_a_name_that_a_release_repeats_is_one_line(name: str) -> None:
    privacy = ps.Privacy(non_private=True)
    for make in (
        lambda: ps.Model(ref_freq=f"folder/{name}"),
        lambda: ps.Model(ld_blocks=name),
        lambda: ps.Model(ld_panel=name, ref_freq="f"),
        lambda: ps.OutcomeTables("p", "b", pc_loadings=name),
        lambda: ps.ReleaseRequest(
            genotypes=ps.GenotypeFiles("a"), outcomes=ps.OutcomeTables("p", "b"),
            privacy=privacy, out="r", cohort=name,
        ),
    ):  # fmt: skip
        with pytest.raises(ps.UsageError, match="repeats this"):
            make()
    assert ps.Model(ref_freq="Häufigkeit 身長.afreq").ref_freq == Path("Häufigkeit 身長.afreq")


def test_numbers_and_texts_of_equal_value_make_equal_requests() -> None:
    """A charge is found again by its request: 3 and 3.0 must be one."""
    one, other = ps.Privacy(epsilon=3, delta=1e-6), ps.Privacy(epsilon=3.0, delta="1e-6")
    assert repr(one) == repr(other) and one == other
    files = ps.GenotypeFiles(Path("a"), chromosomes="1-3")
    assert files == ps.GenotypeFiles(["a"], chromosomes=("1", "2", "3"))


def test_a_request_with_other_values_is_a_copy_of_the_rest() -> None:
    request = ps.ReleaseRequest(
        genotypes=ps.GenotypeFiles("a", chromosomes="1-3"), outcomes=ps.OutcomeTables("p", "b"),
        privacy=ps.Privacy(epsilon=5, delta=1e-6), out="r", model=ps.Model(ld_blocks="window:5"),
    )  # fmt: skip
    assert attrs.evolve(request) == request
    other = attrs.evolve(request, privacy=attrs.evolve(request.privacy, epsilon=3))
    assert (other.privacy.epsilon, other.finalization.epsilon) == (3.0, 3.0)
    with pytest.raises(ps.UsageError, match="epsilon"):
        attrs.evolve(request.privacy, epsilon=-1)


PARTY = {"party": "p", "roster": "r", "party_key": "k", "epsilon": 1, "delta": 1e-6,
         "pheno": "t", "pheno_bounds": "b"}  # fmt: skip
BESIDE_OUT = {
    "release": partial(
        ps.ReleaseRequest, genotypes=ps.GenotypeFiles("a"), outcomes=ps.OutcomeTables("p", "b"),
        privacy=ps.Privacy(epsilon=5, delta=1e-6),
    ),
    "party": partial(ps.PartyReleaseRequest, **PARTY),
}  # fmt: skip


@pytest.mark.parametrize("kind", BESIDE_OUT)
def test_a_work_directory_that_is_not_given_lies_beside_another_release_too(kind: str) -> None:
    request = BESIDE_OUT[kind](out="one")
    assert request.work_dir == Path("one.work").absolute()
    other = attrs.evolve(request, out="other")
    assert other.work_dir == Path("other.work").absolute()
    assert dict(options_of(other))["work-dir"] == other.work_dir
    given = BESIDE_OUT[kind](out="one", work_dir=request.work_dir)
    assert attrs.evolve(given, out="other").work_dir == request.work_dir


TITLES = ["Parameters", "Returns", "Raises"]
WRONG_TYPES = {
    "subsample: is of the wrong type (found 100.5,": lambda: ps.Privacy(subsample=100.5),
    "subsample: is of the wrong type (found True,": lambda: ps.Privacy(subsample=True),
    "non_private: is of the wrong type (found 'no',": lambda: ps.Privacy(non_private="no"),
    "(found 'five', expected float or None)": lambda: ps.Privacy(epsilon="five"),
    "(found list of int, str, expected one or several str or": lambda: ps.OutcomeTables(
        "p", "b", pheno_name=["QT1", 2]
    ),
    "pheno: is of the wrong type (found DataFrame,": lambda: ps.OutcomeTables(pd.DataFrame()),
    "ledger: begins with ~, which only a shell takes": lambda: (
        ps.FinalizeRequest(work_dir="w", out="o", ledger="~/ledger")  # type: ignore[arg-type]
    ),
    "bfile: is of the wrong type (found DataFrame, expected one or several path or None)": lambda: (
        ps.GenotypeFiles(pd.DataFrame({"a": [1]}))  # type: ignore[arg-type]
    ),
    "prior_weights: is of the wrong type (found dict,": lambda: (
        ps.Fit(prior_weights={"QT1": "f"})  # type: ignore[arg-type]
    ),
    "(found 3, expected GenotypeFiles or DataArray of read_plink1_bin or path or URL)": lambda: (
        ps.ReleaseRequest(
            genotypes=3, outcomes=ps.OutcomeTables("p", "b"), privacy=ps.Privacy(), out="r"
        )
    ),
    "(found GenotypeFiles, expected path or URL)": lambda: ps.AccumulateRequest(
        genotypes=ps.GenotypeFiles("a"), outcomes=ps.OutcomeTables("p", "b"),
        privacy=ps.Privacy(), work_dir="w",
    ),
    "(found Privacy, expected ReleaseRequest)": lambda: ps.release(ps.Privacy()),
    "genotypes: is of the wrong type (found 'a', expected GenotypeFiles)": lambda: (
        ps.ingest("a", "g.zarr")  # type: ignore[arg-type]
    ),
    "chunk_shape: is of the wrong type (found 4, expected two int)": lambda: (
        ps.ingest(ps.GenotypeFiles("a"), "g.zarr", chunk_shape=4)  # type: ignore[arg-type]
    ),
    "chunk_shape: is of the wrong type (found tuple of int, expected two int)": lambda: (
        ps.ingest(ps.GenotypeFiles("a"), "g.zarr", chunk_shape=(4, 4, 4))  # type: ignore[arg-type]
    ),
}  # fmt: skip


@pytest.mark.parametrize("line", WRONG_TYPES)
def test_a_value_of_the_wrong_type_is_refused_where_it_is_given(line: str) -> None:
    with pytest.raises(ps.UsageError, match=re.escape(line)):
        WRONG_TYPES[line]()


def test_numbers_of_numpy_and_one_name_alone_are_taken() -> None:
    privacy = ps.Privacy(epsilon=np.float32(5), delta=1e-9, subsample=np.int64(7))
    assert repr(privacy) == repr(ps.Privacy(epsilon=5, delta=1e-9, subsample=7))
    assert ps.OutcomeTables("p", "b", pheno_name="QT1").pheno_name == ("QT1",)
    for chromosomes in (("1", "2", "X"), [np.int64(1), 2, "X"], "1-2,X", ["1-2", "chrX"]):
        assert ps.GenotypeFiles("a", chromosomes=chromosomes).chromosomes == ("1", "2", "X")
    assert ps.GenotypeFiles("a", chromosomes=22).chromosomes == ("22",)


def test_no_field_takes_a_path_that_the_file_system_cannot_hold() -> None:
    kinds = [kind for kind in map(partial(getattr, ps), ps.__all__) if attrs.has(kind)]
    taking = [
        each
        for kind in kinds
        for each in attrs.fields(attrs.resolve_types(kind))
        if "Path" in str(each.type) or each.name == "ld_blocks"
    ]
    assert len(taking) > 50
    for long in ("x" * 5000, "/".join(["x" * 200] * 25)):
        for each in taking:
            with pytest.raises(ps.InputError, match="xxx: File name too long"):
                each.converter(long)


PATH_ARGUMENTS: dict[str, tuple[Callable[[Any], object], ...]] = {
    "directory": (ps.open_release, ps.open_party_release, ps.verify),
    "ledger": (lambda path: ps.verify(ROOT, ledger=path),),
    "path": (ps.open_genotypes,),
    "out": (
        partial(ps.ingest, ps.GenotypeFiles(ROOT)),
        partial(ps.party_roster, ROOT / "people", ROOT / "key"),
    ),
    "people": (lambda path: ps.party_roster(path, ROOT / "key", ROOT / "out"),),
    "bfile": (ps.GenotypeFiles, lambda path: ps.GenotypeFiles([path])),
    "weights": (lambda path: attrs.fields(ps.EvaluationRequest).weights.converter([path]),),
}


@pytest.mark.parametrize("name", PATH_ARGUMENTS)
def test_no_function_takes_what_can_be_no_path(name: str) -> None:
    wrong = {
        "a\0b": "null character (got 'a\\x00b')", "~/x": "begins with ~", 5: "is of the wrong type",
    }  # fmt: skip
    for take in PATH_ARGUMENTS[name]:
        for path, line in wrong.items():
            with pytest.raises(ps.UsageError, match=f"{name}: .*{re.escape(line)}"):
                take(path)
        with pytest.raises(ps.InputError, match="xxx: File name too long"):
            take("x" * 300)


@pytest.mark.parametrize("write", PATH_ARGUMENTS["out"])
def test_a_name_too_long_for_the_files_beside_it_is_refused(write: Any, tmp_path: Path) -> None:
    with pytest.raises(ps.InputError, match="the name is too long for the files beside it"):
        write(tmp_path / ("x" * 250))


def test_members_of_an_enum_and_other_kinds_of_paths_are_taken(tmp_path) -> None:
    method = Enum("Method", {"CHOSEN": "ssp"}, type=str).CHOSEN
    (tmp_path / "score.tsv").touch()
    with os.scandir(tmp_path) as (entry,):
        fit = ps.Fit(method=method, prior_weights=entry)
    assert fit == ps.Fit(method="ssp", prior_weights=tmp_path / "score.tsv")
    assert type(fit.method) is str


def test_every_function_describes_its_arguments_result_and_errors() -> None:
    functions = [each for each in map(partial(getattr, ps), ps.__all__) if isfunction(each)]
    assert len(functions) > 10
    for function in functions:
        assert hasattr(function, "__wrapped__"), function  # by `errors_explained`
        parameters = signature(function).parameters
        titles = ["Returns", "Raises"] if list(parameters) == ["request"] else TITLES
        text = getdoc(function) or ""
        assert [t for t in TITLES if f"\n{t}\n{'-' * len(t)}\n" in text] == titles, function
        if titles is TITLES:
            assert all(f"\n{name}\n    " in text or f"\n{name} : " in text for name in parameters)


def test_a_signature_has_all_types_and_begins_with_what_is_required() -> None:
    assert list(signature(ps.ReleaseRequest).parameters)[:4] == [
        "genotypes", "outcomes", "privacy", "out",
    ]  # fmt: skip
    for kind in filter(attrs.has, map(partial(getattr, ps), ps.__all__)):
        parameters = signature(kind).parameters.values()
        assert all(each.annotation is not each.empty for each in parameters), kind
        optional = [each.default is not each.empty for each in parameters]
        assert optional == sorted(optional), kind


def test_every_option_of_a_request_has_a_name_of_its_own() -> None:
    request = ps.ReleaseRequest(
        genotypes=ps.GenotypeFiles("a"), outcomes=ps.OutcomeTables("p", "b"),
        privacy=ps.Privacy(non_private=True), out="r",
    )  # fmt: skip
    names = [name for name, _ in options_of(request)]
    assert len(set(names)) == len(names)


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
