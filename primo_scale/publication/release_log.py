"""release.log: the statement of a release as plain text, with the options of the command."""

from __future__ import annotations

from pathlib import PurePath

from primo_scale.humanize import spent_in_words
from primo_scale.methods.catalogue import GAMMA_METHOD
from primo_scale.methods.estimators import ESTIMATORS
from primo_scale.publication.document import Document, people_in_words, statement_digest
from primo_scale.publication.wording import DEFAULT_BLOCKS, accuracies_in_words


def render_log(document: Document) -> str:
    """Return the log, without times of day, paths or counts in the cohort.

    The digest of the statement binds it to release.json.
    """
    cohort, software = document["cohort"], document["software"]
    lines = [f"{software['name']} {software['version']}, {document['created']} (UTC)"]
    lines += [document["stamp"]]
    lines += [f"option --{name} {value}" for name, value in options_of(document).items()]
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


def options_of(document: Document) -> dict[str, str]:
    """Return the options of the command, as far as release.json tells them.

    What the program chose is stated as the option that chooses it.
    """
    public, estimation = document["public_inputs"], document["estimation"]
    guarantee, mechanism = document["guarantee"] or {}, document["mechanism"] or {}
    blocks, method = PurePath(public["ld_blocks"]).name, mechanism.get("method")
    estimator, penalty = estimation["estimator"], next(iter(estimation["penalties"]), None)
    is_ridge = estimator == "ridge" and penalty is not None  # a forged one may have none
    is_choice = bool(mechanism) and ESTIMATORS[estimator].is_choice
    scores = [score["file"] for score in estimation.get("public_scores", [])]
    options = {
        "ld-blocks": None if blocks.startswith(DEFAULT_BLOCKS) else blocks,
        "genome-build": public["genome_build"],
        "ref-freq": _file_name(public["reference_frequencies"]),
        "ld-panel": _file_name(public.get("ld_panel")),
        "pc-loadings": _file_name(public.get("pc_loadings")),
        "prior-weights": ", ".join(dict.fromkeys(scores)) or None,
        "non-private": None if mechanism else "yes",
        **{name: guarantee.get(name) for name in ("privacy", "adjacency", "epsilon", "delta")},
        "nominal-n": document["cohort"]["nominal_n"],
        "subsample": mechanism.get("subsample"),
        "method": method,
        "gamma": mechanism["eigenvalue_share"] if method == GAMMA_METHOD else None,
        "shrinkage": estimator if is_choice else None,
        "ridge": penalty / public["genotype_unit"] ** 2 if is_ridge else None,
        "sumstats": "yes" if document.get("summary_statistics") else None,
    }
    return {name: str(value) for name, value in options.items() if value is not None}


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
