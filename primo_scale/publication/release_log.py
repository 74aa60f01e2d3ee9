"""release.log: the statement of a release as plain text, with the options of the command."""

from __future__ import annotations

import math
from collections.abc import Container
from pathlib import PurePath

from primo_scale.humanize import spent_in_words
from primo_scale.methods.catalogue import GAMMA_METHOD
from primo_scale.methods.estimators import ESTIMATORS
from primo_scale.publication.document import Document, people_in_words, statement_digest
from primo_scale.publication.wording import DEFAULT_BLOCKS, UNNAMED, accuracies_in_words


def render_log(document: Document) -> str:
    """Return the log, without times of day, paths or counts in the cohort.

    The digest of the statement binds it to release.json.
    """
    cohort, software = document["cohort"], document["software"]
    lines = [f"{software['name']} {software['version']}, {document['created']} (UTC)"]
    lines += [document["stamp"]]
    options = [(name, "" if value is None else f" {value}") for name, value in options_of(document)]
    lines += [f"option --{name}{value}" for name, value in options]
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


def options_of(document: Document) -> list[tuple[str, str | None]]:
    """Return the options of the command with their values, as far as release.json tells them.

    What the program chose is stated as the option that chooses it. A flag has the value None.
    """
    public, estimation = document["public_inputs"], document["estimation"]
    guarantee, mechanism = document["guarantee"] or {}, document["mechanism"] or {}
    blocks, method = PurePath(public["ld_blocks"]).name, mechanism.get("method")
    estimator, penalty = estimation["estimator"], next(iter(estimation["penalties"]), None)
    is_ridge = estimator == "ridge" and penalty is not None  # a forged one may have none
    is_choice = bool(mechanism) and ESTIMATORS[estimator].is_choice
    unit, cohort = public["genotype_unit"], (document["ledger"] or {}).get("cohort", UNNAMED)
    given = {source["source"]: source["value"] for source in public["sources"]}
    bound = mechanism["row_norm_squared"] if mechanism and "--row-norm" in given else None
    options = {
        "ld-blocks": None if blocks.startswith(DEFAULT_BLOCKS) else blocks,
        "genome-build": public["genome_build"],
        "ref-freq": _file_name(public["reference_frequencies"]),
        "ld-panel": _file_name(public.get("ld_panel")),
        "panel-populations": _file_name(public.get("panel_populations")),
        "genetic-factors": given.get("--genetic-factors"),
        "rounds": _rounds(document),
        # The bound is rounded down to an integer, of which this is no rounding error.
        "row-norm": None if bound is None else math.sqrt(bound + 0.5) / unit,
        "pc-loadings": _file_name(public.get("pc_loadings")),
        **{name: guarantee.get(name) for name in ("privacy", "adjacency", "epsilon", "delta")},
        "nominal-n": document["cohort"]["nominal_n"],
        "subsample": mechanism.get("subsample"),
        "method": method,
        "gamma": mechanism["eigenvalue_share"] if method == GAMMA_METHOD else None,
        "shrinkage": estimator if is_choice else None,
        "ridge": penalty / unit**2 if is_ridge else None,
        "cohort": None if cohort == UNNAMED else cohort,
    }
    stated = [(name, str(value)) for name, value in options.items() if value is not None]
    scores = [("prior-weights", value) for value in _prior_weights(document)]
    return [*stated, *scores, *((flag, None) for flag in _flags(document, given))]


def _rounds(document: Document) -> int | None:
    """Return the number of rounds of noisy LD components, or None for another release."""
    mechanism = document["mechanism"]
    if mechanism is None or document["cohort"].get("component_sizes") is None:
        return None
    return 2 if mechanism.get("second_round") else 1


def _prior_weights(document: Document) -> list[str]:
    """Return the values of --prior-weights: a file for every phenotype, or PHENOTYPE=FILE."""
    names = {phenotype["name"] for phenotype in document["public_inputs"]["phenotypes"]}
    used: dict[tuple[str, str], dict[str, None]] = {}
    for score in document["estimation"].get("public_scores", []):
        phenotypes = used.setdefault((score["file"], score["sha256"]), {})
        phenotypes.update((slope["phenotype"], None) for slope in score["slopes"])
    return [
        value
        for (file, _), phenotypes in used.items()
        for value in ([file] if names <= phenotypes.keys() else [f"{p}={file}" for p in phenotypes])
    ]


def _flags(document: Document, given: Container[str]) -> list[str]:
    """Return the options without a value; those in `given` are sources of public inputs."""
    mechanism, cohort = document["mechanism"], document["cohort"]
    panel, held_out = document["public_inputs"].get("ld_panel"), document.get("hold_out")
    measured = held_out["phenotypes"] if held_out else []
    flags = {
        "dosages": "--dosages" in given,
        "no-ld-components": panel is not None and cohort.get("component_sizes") is None,
        "non-private": mechanism is None,
        "calibrate": any(each["calibration"] != 1 for each in measured),
        "sumstats": document.get("summary_statistics"),
    }
    return [name for name, is_given in flags.items() if is_given]


def _file_name(stated: Document | str | None) -> str | None:
    """Return the name of a public file, or None for a release without it."""
    return stated["file"] if isinstance(stated, dict) else None


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
