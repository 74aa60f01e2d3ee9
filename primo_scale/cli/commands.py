"""Commands of ``primo-scale``: each makes a request of its options, and calls an operation.

Operations are imported when a command runs, because NumPy, Zarr and Dask take a second.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from primo_scale.cli.command_line import ContractCommand, ContractGroup
from primo_scale.errors import Field, InputError, InterruptedRun, UsageError
from primo_scale.run.run_log import LOGGER

Given = dict[str, Any]
"""Fields of a request that the command line gives."""
_FILE = click.Path(dir_okay=False, path_type=Path)
_DIRECTORY = click.Path(file_okay=False, path_type=Path)


def _regular(_: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
    """Return the path of a file that is regular, or does not exist yet."""
    from primo_scale.run.fields import regular_file  # loads attrs

    return None if value is None else regular_file(value, parameter.name or "path")


_EXAMPLES = """
Examples:

\b
A private release of two chromosomes. `primo-scale plan` with the same options
checks every input, asks the ledger, and prints what the run needs:
  primo-scale release --bfile ukb_chr1,ukb_chr2 \\
      --pheno pheno.tsv --pheno-bounds pheno_bounds.tsv \\
      --covar covar.tsv --covar-bounds covar_bounds.tsv \\
      --ref-freq 1000g_eur.afreq --ld-panel 1000g_eur \\
      --epsilon 3 --delta 1e-11 --out release

\b
A release without noise, to compare with other tools; it protects nobody:
  primo-scale release --bfile cohort --pheno pheno.tsv \\
      --pheno-bounds pheno_bounds.tsv --ld-blocks window:500 \\
      --non-private --out comparison
"""


@click.command(cls=ContractCommand, kinds=["run.options.ReleaseRequest"], epilog=_EXAMPLES)
def release(asked: Any) -> None:
    """Publish differentially private polygenic-score weights of every phenotype.

    Runs ingest, accumulate and finalize. After any interruption the same command continues, and it
    publishes no release twice. Before it reads a genotype it checks all other inputs and asks the
    ledger, as plan does.
    """
    from primo_scale.run import operations

    click.echo(f"release: {operations.release(asked).directory}")


@click.command(
    cls=ContractCommand, kinds=["run.options.ReleaseRequest", "run.options.ForecastRequest"]
)
def plan(given: Given) -> None:
    """Check a release before any work, and print what it needs and how accurate it will be.

    It takes the options of release, reads headers, tables and the ledger, and changes nothing.
    PRIVATE: the output reveals the number of people. With --pheno and without --pheno-bounds, it
    prints the table of bounds to fill in.

    With --people in place of a cohort, it forecasts from --ld-panel, --ref-freq and numbers alone
    how accurate releases will be, in a table. R^2 is expected in other people of the panel's
    population, for a trait of heritability 0.3 that is spread evenly over the variants.

    "columns" is the number of LD components, or of variants without them; "sparse R^2" is that of a
    trait of which 1% of the variants have effects; "best R^2" that of a release without noise, and
    "of best" the share of it; "n without" the number of people whose release without noise explains
    as much.
    """
    from primo_scale.run.fields import request_of
    from primo_scale.run.options import OutcomeTables, ReleaseRequest

    if "people" in given:
        _forecast(given)
        return
    _refuse_others(given, ReleaseRequest, "is for a plan without a cohort, with `people`")
    if "pheno" in given and "pheno_bounds" not in given:
        from primo_scale.outcomes.tables import open_outcome_table

        # There are no bounds yet: the table takes their place.
        tables = OutcomeTables(given["pheno"], given["pheno"], pheno_name=given.get("pheno_name"))
        names = open_outcome_table(tables.pheno).matching(tables.pheno_name)
        for row in ("name\tlower\tupper\tmean\tsd", *(f"{name}\t?\t?\tNA\tNA" for name in names)):
            click.echo(row)
        LOGGER.info("fill in public bounds, and give the table as --pheno-bounds (docs/tables.md)")
        return
    _dry_run(request_of(ReleaseRequest, given))


def _refuse_others(given: Given, kind: Any, what: str) -> None:
    from primo_scale.run.fields import declared

    for name in given.keys() - declared(kind).keys():
        raise UsageError(what, where=Field(name))


def _dry_run(asked: Any) -> None:
    """Check a request, log the forecasts of its run, and change nothing."""
    from primo_scale.run import operations
    from primo_scale.run.purge import is_done_and_purged

    warnings = 0
    if not is_done_and_purged(asked, read_only=True):
        warnings = len(operations.plan(asked).warnings)
    # The number depends on private values, so that a batch job does not print this line.
    result = f"{warnings} warning{'s' * (warnings > 1)} above" if warnings else "nothing is refused"
    LOGGER.info("dry run: %s, and nothing was changed", result)


_FORECAST = "{:>9} {:>10} {:>8} {:>9} {:>8} {:>9} {:>10} {:>7} {:>10} {:>10}"
_FORECAST_HEADINGS = (
    "people", "phenotypes", "epsilon", "variants", "columns", "R^2", "sparse R^2", "of best",
    "n without", "best R^2",
)  # fmt: skip


def _forecast(given: Given) -> None:
    """Print the accuracy of releases without a cohort."""
    from primo_scale.run.fields import request_of
    from primo_scale.run.options import ForecastRequest
    from primo_scale.run.plan import forecast

    _refuse_others(given, ForecastRequest, "is for a plan with a cohort, without `people`")
    rows = forecast(request_of(ForecastRequest, given))
    click.echo(_FORECAST.format(*_FORECAST_HEADINGS))
    for row in rows:
        shape = row.people, row.phenotypes, f"{row.epsilon:g}", row.variants, row.columns
        numbers = f"{row.r2:.4f}", f"{row.sparse_r2:.4f}", f"{row.r2 / row.r2_without_noise:.0%}"
        last = f"{row.effective_people:.0f}", f"{row.r2_without_noise:.4f}"
        click.echo(_FORECAST.format(*shape, *numbers, *last))


@click.command(cls=ContractCommand, kinds=["run.options.IngestRequest"])
def ingest(asked: Any) -> None:
    """Write genotype files to a packed Zarr store.

    Run again after an interruption with the same options, it continues where it stopped.
    """
    from primo_scale.run import operations

    operations.ingest(asked)


@click.command(cls=ContractCommand, kinds=["run.options.AccumulateRequest"])
@click.option("--dry-run", is_flag=True, help="Check everything as before a run, and do nothing.")
def accumulate(asked: Any, dry_run: bool) -> None:
    """Sum X'X by LD blocks, X'Z and Z'Z exactly, resumably, on this machine or a Dask cluster.

    The result is private. Unless --non-private is given, this pays for the whole release, because
    phenotypes are first adjusted for covariates with noise; give finalize the same --epsilon and
    --delta.
    """
    from primo_scale.run import operations

    if dry_run:
        _dry_run(asked)
    else:
        operations.accumulate(asked)


@click.command(cls=ContractCommand, kinds=["run.options.FinalizeRequest"])
def finalize(asked: Any) -> None:
    """Add noise once, solve every phenotype, and publish the weights; accumulate has paid."""
    from primo_scale.run import operations

    click.echo(f"release: {operations.finalize(asked).directory}")


@click.command(cls=ContractCommand)
@click.argument("directory", metavar="DIR", type=_DIRECTORY)
@click.option(
    "--public-key",
    metavar="HEX",
    help="The custodian's public key, learned elsewhere: the release must be signed with it.",
)
@click.option(
    "--ledger",
    type=_FILE,
    callback=_regular,
    help="For the custodian: the ledger must have paid for this very release.",
)
def verify(directory: Path, public_key: str | None, ledger: Path | None) -> None:
    """Check the release in DIR and recompute its guarantee from release.json.

    Exit code 0: everything holds; 1: something does not; 3: DIR holds no release.
    """
    from primo_scale.verify.release import verify
    from primo_scale.verify.words import NOT_PRIVATE

    verdict = verify(directory, public_key=public_key, ledger=ledger)
    width = max(len(finding.check) for finding in verdict.findings)
    for finding in verdict.findings:
        mark = "ok     " if finding.ok else "PROBLEM"
        click.echo(f"{mark}  {finding.check:<{width}}  {_printable(finding.detail)}")
    if not verdict.ok:
        problems, checks = len(verdict.problems), len(verdict.findings)
        click.echo(f"NOT VERIFIED: {problems} of {checks} checks failed")
        sys.exit(1)
    if not verdict.private:
        click.echo(f"intact, but {NOT_PRIVATE}: this release promises nothing to anybody")
        return
    click.echo(f"guarantee, recomputed: {_printable(verdict.promise)}")
    click.echo("README.txt, report.html and names are the signer's word; nobody can check them")
    if public_key is None:
        click.echo(
            "WARNING: NO --public-key WAS GIVEN: anybody could have made and signed this release"
        )
    click.echo("verified: the files are intact and the guarantee follows from the numbers")


def _printable(detail: str) -> str:
    """Return a detail with control characters and undecodable names of files escaped."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in detail)


@click.command(cls=ContractCommand, kinds=["run.options.EvaluationRequest"])
def evaluate(asked: Any) -> None:
    """Measure how well scores predict phenotypes, without noise.

    The people must have consented, be public, or be simulated: the results are NOT PRIVATE. Never
    evaluate a release in the cohort that it was made from. Its accuracy there is too high, and the
    result is not covered by the release's epsilon.
    """
    from primo_scale.run.evaluation import TABLE_FILE, evaluate

    click.echo(evaluate(asked))
    click.echo(f"results: {asked.out / TABLE_FILE}")


@click.command(cls=ContractCommand)
@click.argument("work_dir", metavar="WORK_DIR", type=_DIRECTORY)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for machines.")
def status(work_dir: Path, as_json: bool) -> None:
    """Print the stage of the run in WORK_DIR, the work that is left, and the time it takes.

    The command reads the run's own record and does not disturb the run. PRIVATE: the number of
    tasks reveals the number of people, so the output is for the operator's terminal alone.

    Exit code 0: the run goes on, finished, or is on another machine; 5: it stopped, and the same
    command continues it; 3: it failed, or WORK_DIR is not a work directory.
    """
    from primo_scale.run.work_directory import read_status, status_lines

    status = read_status(work_dir)
    if as_json:
        click.echo(json.dumps({"work_dir": str(work_dir), **asdict(status)}))
    else:
        for line in status_lines(work_dir, status):
            click.echo(line)
    if status.state == "failed":
        click.echo(status.message, err=True)
    codes = {"stopped": InterruptedRun.exit_code, "failed": InputError.exit_code}
    sys.exit(codes.get(status.state, 0))


@click.command(cls=ContractCommand, kinds=["run.options.SimulationRequest"])
def simulate(asked: Any) -> None:
    """Simulate a cohort whose genotypes are mosaics of a public panel's.

    Writes a PLINK 1 fileset, PREFIX.covar.tsv (age and sex) and, for traits, PREFIX.pheno.tsv,
    the bounds files that a release needs and the true effects. The same options give the same
    files, byte for byte.
    """
    from primo_scale.simulation.cohort import simulate

    n_variants = simulate(**vars(asked))
    click.echo(f"{asked.out}: {asked.samples} simulated people, {n_variants} variants")


_AUDIT = "{:<8} {:<12} {:<7} {:>7} {:>11} {:>8} {:>9}  {:<22}  {}"
_AUDIT_HEADINGS = "privacy adjacency X'X claim attainable shown Gaussian verdict methods"


@click.command(cls=ContractCommand, kinds=["run.options.AuditRequest"])
def audit(asked: Any) -> None:
    """Bound the epsilon of every mechanism from below, by attacks on draws of its noise.

    The noise is drawn with the code of a release, over two invented neighbouring cohorts that
    are as far apart as the proofs allow. An attack that distinguishes them too well is evidence
    against the claim. No data is read, and no budget is spent. docs/audit.md has the details.

    Exit code 0: no evidence against any claim; 1: evidence against a claim.
    """
    from primo_scale.audit.mechanism_audit import WITHIN, audit_subjects, worst_pairs
    from primo_scale.audit.mechanism_audit import audit as audited

    subjects = list(
        audit_subjects(
            asked.method, asked.unit, asked.adjacency, epsilon=asked.epsilon, delta=asked.delta
        )
    )
    click.echo(
        f"delta {asked.delta:g}, {asked.runs:,} releases over each of two neighbouring cohorts a "
        f"pair, confidence {asked.confidence:g} for all lines together"
    )
    click.echo("invented people only: no data is read, no budget is spent")
    click.echo("not audited: people held out, adjustments, releases of parties (docs/audit.md)")
    click.echo(_AUDIT.format(*_AUDIT_HEADINGS.split()))
    failed = 0
    for methods, mechanism in subjects:
        false_alarm = (1 - asked.confidence) / len(subjects)
        pairs = worst_pairs(mechanism)
        result = audited(mechanism, pairs, runs=asked.runs, false_alarm=false_alarm)
        promise = mechanism.promise
        bounds = (result.attainable, result.epsilon, result.gaussian_epsilon)
        line = _AUDIT.format(
            promise.unit,
            promise.adjacency,
            "dense" if mechanism.bounds.block_norms is None else "blocks",
            f"{promise.epsilon:g}",
            *("-" if value is None else f"{value:.3f}" for value in bounds),
            result.verdict,
            ", ".join(methods),
        )
        click.echo(line.rstrip())
        if result.verdict == WITHIN:
            continue
        failed += 1
        for name, mu, _, shown in result.pairs:
            stated = "" if mu is None else f"mu {mu:.3f} stated, "
            click.echo(f"    {name}: {stated}at least {shown:.3f} shown")
    if failed:
        click.echo(f"AUDIT FAILED: {failed} of {len(subjects)} mechanisms")
        sys.exit(1)
    click.echo(f"no evidence against any of {len(subjects)} claims")


# ---- Ledger --------------------------------------------------------------------------------------

_LEDGER = click.option(
    "--ledger",
    "path",
    type=_FILE,
    callback=_regular,
    help="The ledger file [default: primo_scale/ledger.sqlite under the XDG state directory].",
)
_COHORT = click.option(
    "--cohort", help="A cohort's name, or 8 or more first digits of its identifier (see `show`)."
)


@click.group(cls=ContractGroup)
def ledger() -> None:
    """Show, verify and set the privacy budgets of cohorts."""


@ledger.command("show")
@_LEDGER
@_COHORT
def ledger_show(path: Path | None, cohort: str | None) -> None:
    """Print what each cohort may spend, has spent and has left, and every charge.

    Others verify the signatures of releases with the public key: publish it.
    """
    from primo_scale import ledger

    click.echo(ledger.show(path, cohort=cohort))


@ledger.command("verify")
@_LEDGER
def ledger_verify(path: Path | None) -> None:
    """Recompute the whole ledger; print every problem, and exit 1 if there is one."""
    from primo_scale import ledger
    from primo_scale.ledger.ledger import default_ledger_path

    path = path or default_ledger_path()
    problems = ledger.verify(path)
    for problem in problems:
        click.echo(f"{path}: {problem}", err=True)
    if problems:
        sys.exit(1)
    click.echo(f"{path}: verified, head {ledger.show(path).head}")


@ledger.command("set-budget", cls=ContractCommand, kinds=["run.options.BudgetRequest"])
@_LEDGER
@_COHORT
def ledger_set_budget(asked: Any, path: Path | None, cohort: str | None) -> None:
    """Set a cohort's total budget; --cohort may be left out when the ledger holds one cohort.

    A name that matches no cohort opens a budget for a new one, to be used with the same --cohort.
    Each --privacy and --adjacency has a budget of its own. Budgets do not add up: a guarantee
    for phenotypes alone is none for genotypes.
    """
    from primo_scale import ledger

    click.echo(ledger.set_budget(path=path, cohort=cohort, **vars(asked)))


# ---- Parties -------------------------------------------------------------------------------------


@click.group(cls=ContractGroup)
def party() -> None:
    """Release columns of one of several parties who hold data about the same people."""


@party.command("roster", cls=ContractCommand, kinds=["parties.release.RosterRequest"])
def party_roster(asked: Any) -> None:
    """Write the roster of this party's people, or of those whom the other parties have too.

    Each party writes its own roster and gives it to the others. Then each one intersects all of
    them, which gives the same roster everywhere. A roster is for the parties alone.
    """
    from primo_scale.parties.release import party_roster

    click.echo(f"{asked.out}: {len(party_roster(asked))} people")


@party.command("release", cls=ContractCommand, kinds=["parties.release.PartyReleaseRequest"])
def party_release(asked: Any) -> None:
    """Publish noisy values of this party's columns, for models with columns of other parties.

    Where the data may be brought together, a central release (primo-scale release) is far more
    accurate; the README of each release says by how much.
    """
    from primo_scale.parties.release import party_release

    click.echo(f"release: {party_release(asked).directory}")


@party.command("fit", cls=ContractCommand, kinds=["parties.fit.PartyFitRequest"])
def party_fit(asked: Any) -> None:
    """Fit a released column to the other columns. It costs no privacy: releases are public."""
    from primo_scale.parties.fit import party_fit

    model = party_fit(asked)
    click.echo(
        f"model: {asked.out}; the releases together promise epsilon {model.epsilon:.4g} at "
        f"delta {model.delta:g} to a person"
    )


# ---- Keys and clusters ---------------------------------------------------------------------------


@click.group(cls=ContractGroup)
def key() -> None:
    """Make keys for encryption at rest, and for parties."""


@key.command("new")
@click.argument("file", type=_FILE, callback=_regular)
def key_new(file: Path) -> None:
    """Write a new random key to FILE, for --encryption-key.

    Keep it apart from the work directory. Without it, what it encrypted is lost: sum again.
    """
    from primo_scale.storage.stores import key_identifier, make_key_file

    click.echo(f"{file}: key {key_identifier(make_key_file(file))}")


@click.group(cls=ContractGroup)
def cluster() -> None:
    """Prepare a cluster: its certificates, its profile, and genotypes where workers read them."""


@cluster.command("certificates")
@click.argument("directory", type=_DIRECTORY)
@click.option(
    "--days",
    type=click.IntRange(1, 397),
    default=30,
    help="Number of days in which new connections are possible.",
)
def certificates(directory: Path, days: int) -> None:
    """Make ca.pem, cert.pem and key.pem, by which members of a cluster know each other.

    Give DIRECTORY to the scheduler, the workers and --tls. Whoever can read it is a member.
    """
    from primo_scale.cluster.security import make_certificates

    make_certificates(directory, days=days)
    click.echo(f"{directory}: valid for {days} days")


@cluster.command("show")
@click.argument("file", type=_FILE, callback=_regular, metavar="FILE.toml")
def cluster_show(file: Path) -> None:
    """Print the job script of a profile; start nothing.

    SCHEDULER, PORT, NAME and WORK_DIR stand for what only a run knows.
    """
    from primo_scale.cluster.job_queues import read_profile
    from primo_scale.cluster.workers import job_script

    click.echo(job_script(read_profile(file)), nl=False)


@cluster.command("copy-genotypes")
@click.option("--genotypes", required=True, metavar="PATH|URL", help="Store written by ingest.")
@click.option(
    "--to", "destination", required=True, metavar="PATH|URL",
    help="Where to copy it, such as s3://bucket/cohort/genotypes.zarr (private).",
)  # fmt: skip
def copy_genotypes(genotypes: str, destination: str) -> None:
    """Copy a finished genotype store to where the workers of a cluster read it.

    Every chunk is read back and compared with the CRC-32C that the ingest recorded. Run again after
    an interruption, it continues where it stopped.
    """
    from primo_scale.genotypes.store import open_genotype_store
    from primo_scale.run.ingest_stage import copy_stage
    from primo_scale.storage.locations import parse_location

    copy_stage(open_genotype_store(parse_location(genotypes)), parse_location(destination))
