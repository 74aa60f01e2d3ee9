"""Checkpoints for the design and the outcomes of a finished work directory."""

from dataclasses import replace
from pathlib import Path

from primo_scale.accumulation.checkpoint import open_partials
from primo_scale.accumulation.partials import Inputs, Partials
from primo_scale.accumulation.plan import default_plan
from primo_scale.genotypes.store import open_genotype_store
from primo_scale.outcomes.store import open_outcome_store
from primo_scale.run.design import load_design


def inputs_of(genotypes: Path, outcomes: Path, rule=None, subsample=None) -> Inputs:
    """Return the inputs of tasks that read two finished stores, with their digests."""
    digests = {
        "genotypes": open_genotype_store(genotypes).identity_digest,
        "outcomes": open_outcome_store(outcomes).content_digest,
    }
    return Inputs(genotypes, outcomes, rule, subsample, digests)


def partials_of_design(
    path: Path, work: Path, genotypes: Path | None = None, *, changes=None, **cut: int
) -> Partials:
    """Open or create the checkpoint of a work directory's design, with other inputs and plan."""
    design = load_design(work / "design.json")
    plan = replace(default_plan(design.layout, design.n_samples, design.phenotype_step), **cut)
    genotypes = genotypes or Path(design.genotype_store)
    inputs = inputs_of(genotypes, work / "outcomes.zarr", design.clipping_rule, design.subsample)
    inputs = replace(inputs, **(changes or {}))
    return open_partials(path, plan, inputs, design.genotypes.code_table)
