"""release.log: the statement of a release as plain text, with the options of the command."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from primo_scale.humanize import spent_in_words
from primo_scale.publication.document import Document, people_in_words, statement_digest
from primo_scale.publication.wording import accuracies_in_words

OPTIONS = (
    "ld-blocks", "privacy", "adjacency", "method", "shrinkage", "ridge", "gamma", "genome-build",
    "nominal-n", "subsample", "ref-freq", "ld-panel", "non-private", "epsilon", "delta",
    "sumstats", "prior-weights", "pc-loadings",
)  # fmt: skip
"""Options of the command that a release publishes."""

_OPTION = "option --"
_OPEN = {"method": "auto", "shrinkage": "auto"}


def on_one_line(options: Mapping[str, str]) -> dict[str, str]:
    """Return options with single spaces in their values, so that each is one line of the log."""
    return {name: " ".join(value.split()) for name, value in options.items()}


def render_log(document: Document, options: Mapping[str, str]) -> str:
    """Return the log, without times of day, paths or counts in the cohort.

    The digest of the statement binds it to release.json.
    """
    cohort, software = document["cohort"], document["software"]
    lines = [f"{software['name']} {software['version']}, {document['created']} (UTC)"]
    lines += [document["stamp"]]
    lines += [f"{_OPTION}{name} {value}" for name, value in options.items()]
    lines += [
        f"cohort: {people_in_words(document)}, {cohort['n_variants']} variants in "
        f"{len(cohort['block_sizes'])} LD blocks, {cohort['n_phenotypes']} phenotypes, "
        f"{cohort['n_covariates']} covariates"
    ]
    lines += _mechanism_lines(document["mechanism"])
    if document["ledger"]:
        ledger = document["ledger"]
        limit = ledger["budget"]["epsilon"]
        lines.append(
            f"charged: epsilon {spent_in_words(ledger['before']['epsilon'], limit)} -> "
            f"{spent_in_words(ledger['after']['epsilon'], limit)} of {spent_in_words(limit)} "
            f"at delta {ledger['delta']:.6g}"
        )
    size = document["accuracy"]["effective_sample_size"]
    lines.append(f"effective sample size, a forecast from public numbers: {size:.6g}")
    lines += [f"held out: {line}" for line in accuracies_in_words(document)]
    lines.append(f"statement sha256: {statement_digest(document)}")
    return "\n".join(lines) + "\n"


def options_in(log: str) -> dict[str, str]:
    """Return the options in a release.log, in its order."""
    found = {}
    for line in log.split("\n"):
        if line.startswith(_OPTION):
            name, _, value = line.removeprefix(_OPTION).partition(" ")
            found[name] = value
    return found


def option_problems(document: Document, options: Mapping[str, str]) -> list[str]:
    """Return problems of options that are unknown or contradict release.json."""
    problems = [f"has an unknown option --{name}" for name in options if name not in OPTIONS]
    for name, expected in on_one_line(_stated(document)).items():
        value = options.get(name, expected)
        if value not in (expected, _OPEN.get(name)) and not _same_number(value, expected):
            problems.append(f"has --{name} {value}, release.json has {expected or 'none'}")
    ridge = options.get("ridge", "auto")
    if ridge != "auto" and not _same_number(ridge, ridge):
        problems.append(f"has --ridge {ridge}, which is not a number")
    return problems


def _stated(document: Document) -> dict[str, str]:
    """Return the value of each option according to release.json, empty for an option not given."""
    public, guarantee, mechanism, estimation = (
        document[name] for name in ("public_inputs", "guarantee", "mechanism", "estimation")
    )
    reference = public["reference_frequencies"]
    files = {
        "ref-freq": None if reference == "uninformative" else reference,
        "ld-panel": public.get("ld_panel"),
        "pc-loadings": public.get("pc_loadings"),
    }
    scores = [score["file"] for score in estimation.get("public_scores", [])]
    stated = {
        "ld-blocks": PurePath(public["ld_blocks"]).name,
        "genome-build": public["genome_build"],
        "sumstats": "yes" if document.get("summary_statistics") else "no",
        "prior-weights": ", ".join(dict.fromkeys(scores)),
        **{name: file["file"] if file else "" for name, file in files.items()},
    }
    if not document["private"]:
        return {**stated, "non-private": "yes", "epsilon": "", "delta": ""}
    people, subsample = document["cohort"]["nominal_n"], mechanism["subsample"]
    return {
        **stated,
        "non-private": "no",
        **{name: guarantee[name] for name in ("privacy", "adjacency")},
        **{name: repr(guarantee[name]) for name in ("epsilon", "delta")},
        "method": mechanism["method"],
        "shrinkage": estimation["estimator"],
        "gamma": repr(mechanism["eigenvalue_share"]),
        "nominal-n": str(people or ""),
        "subsample": str(subsample or ""),
    }


def _same_number(one: str, other: str) -> bool:
    try:
        return float(one) == float(other)
    except ValueError:
        return False


def _mechanism_lines(mechanism: Document | None) -> list[str]:
    if mechanism is None:
        return []
    lines = [f"method {mechanism['method']}: {mechanism['reason']}"]
    for query in mechanism["queries"]:
        low, high = min(query["sigma"]), max(query["sigma"])
        scale = f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"
        lines.append(f"measured: {query['statistic']}, noise sd {scale}")
    lines += [f"public, without noise: {name}" for name in mechanism["exact_parts"]]
    return lines
