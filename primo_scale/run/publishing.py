"""What finalize publishes: checks of names, the solved weights, the release directory."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from primo_scale.run.log_records import LOGGER, about
from primo_scale.run.release_directory import exists_already, refuse_damaged

if TYPE_CHECKING:
    from primo_scale.genotypes.genome_build import GenomeBuild
    from primo_scale.genotypes.tables import VariantTable
    from primo_scale.outcomes.coding import OutcomeCoding
    from primo_scale.privacy.private_statistics import PrivateStatistics
    from primo_scale.publication.signature import Signer
    from primo_scale.publication.weights import ScoringWeights
    from primo_scale.run.describe_release import Payment
    from primo_scale.run.design import Design
    from primo_scale.run.estimation import Solved
    from primo_scale.run.method_choice import Chosen
    from primo_scale.run.request import FinalizeRequest


@dataclass(frozen=True)
class Paid:
    """What makes a release private in the eyes of others: its payment and the signature."""

    payment: Payment
    signer: Signer


def check_publishable(variants: VariantTable, outcomes: OutcomeCoding) -> None:
    """Refuse names that no release can carry, before any work is done or any budget spent.

    Raises
    ------
    InputError
        Repeated or reserved variant IDs; names of columns that a file cannot hold; texts that are
        formulas to a spreadsheet.
    """
    from primo_scale.publication.pgs import pgs_file_stems
    from primo_scale.publication.releasable import (
        check_column_names,
        check_variant_identifiers,
        refuse_formulas,
    )

    check_variant_identifiers(variants.identifier)
    phenotypes = [p.name for p in outcomes.phenotypes]
    check_column_names("phenotype", phenotypes)
    covariates = [c.name for c in outcomes.covariates]
    check_column_names("covariate", covariates)
    refuse_formulas(variants, phenotypes=phenotypes, covariates=covariates)
    pgs_file_stems(phenotypes)


def log_genome_build(given: str | None, variants: VariantTable) -> GenomeBuild:
    """Log and return the genome build that a release will state; warn where it will state none.

    Raises
    ------
    InputError
        Known variants lie where another build than the given one has them.
    """
    from primo_scale.genotypes.genome_build import NOT_REPORTED, settle_genome_build

    build = settle_genome_build(given, variants)
    LOGGER.info("genome build: %s (%s)", build.name, build.source)
    if given is None and build.name == NOT_REPORTED:
        LOGGER.warning(
            "tools of the PGS Catalog refuse scoring files without a genome build: give "
            "--genome-build with the build that the positions are in"
        )
    return build


def publish(
    design: Design,
    private: PrivateStatistics,
    request: FinalizeRequest,
    *,
    variants: VariantTable,
    chosen: Chosen,
    paid: Paid | None,
) -> str:
    """Solve and publish; return the SHA-256 of release.json."""
    from threadpoolctl import threadpool_limits

    from primo_scale.genotypes.genome_build import settle_genome_build
    from primo_scale.machine import usable_cpus
    from primo_scale.publication.publish import is_same_release, publish_release
    from primo_scale.run.describe_release import make_statement
    from primo_scale.run.estimation import solve_release
    from primo_scale.storage.files import sha256_of_file

    # A local Dask cluster leaves one BLAS thread in this process's environment.
    with threadpool_limits(limits=usable_cpus()):
        solved = solve_release(design, private, chosen, ridge=request.fit.ridge)
    payment = None if paid is None else paid.payment
    build = settle_genome_build(request.genome_build, variants)
    statement = make_statement(design, solved, payment, genome_build=build)
    if request.out.exists():
        if not is_same_release(request.out, statement):
            raise exists_already(request.out)
        refuse_damaged(request.out)
        LOGGER.info("%s: this release is published already", request.out)
    else:
        weights = _scoring_weights(design, solved, variants)
        publish_release(
            request.out,
            weights,
            statement,
            _public_options(design, request, build.name),
            signer=None if paid is None else paid.signer,
        )
    LOGGER.info("%s", statement.stamp)
    LOGGER.info("effective sample size %.6g", statement.accuracy.effective_sample_size)
    out = request.out.absolute()
    log_scoring_command(request.out)
    LOGGER.debug("published %s", out, extra=about("published", {"out": out}))
    return sha256_of_file(request.out / "release.json")


def log_scoring_command(release: Path) -> None:
    """Log the plink2 command that computes the scores of a published release."""
    from primo_scale.publication.scoring import scoring_command

    document = json.loads((release / "release.json").read_bytes())
    LOGGER.info("to score people: %s", " ".join(scoring_command(document, release)))


def _scoring_weights(design: Design, solved: Solved, variants: VariantTable) -> ScoringWeights:
    from primo_scale.methods.dosage_scale import to_dosage_scale
    from primo_scale.publication.weights import ScoringWeights

    raw_scale = to_dosage_scale(
        solved.solution.weights, design.genotypes, design.outcomes, solved.response
    )
    return ScoringWeights(
        variants=variants,
        phenotypes=tuple(p.name for p in design.outcomes.phenotypes),
        per_allele=raw_scale.per_allele,
        intercept=raw_scale.intercept,
        covariates=tuple(c.name for c in design.outcomes.covariates),
        covariate_weights=raw_scale.covariates,
        centre_dosage=design.genotypes.centre_dosage,
    )


def _public_options(design: Design, request: FinalizeRequest, build: str) -> dict[str, str]:
    """Options that the release may repeat: no path, nothing of the custodian's own."""
    options = {
        "ld-blocks": Path(design.ld_blocks).name,
        "privacy": str(design.privacy),
        "adjacency": str(design.adjacency),
        "method": request.fit.method,
        "shrinkage": request.fit.shrinkage or "auto",
        "ridge": "auto" if request.fit.ridge is None else f"{request.fit.ridge:g}",
        "genome-build": build,
    }
    if design.nominal_n is not None:
        options["nominal-n"] = str(design.nominal_n)
    if design.subsample is not None:
        options["subsample"] = str(design.subsample)
    if design.reference is not None:
        options["ref-freq"] = design.reference["file"]
    if request.budget is None:
        return {**options, "non-private": "yes"}
    return {
        **options,
        "epsilon": f"{request.budget.epsilon!r}",
        "delta": f"{request.budget.delta!r}",
    }
