"""Phenotypes whose weights are all 0 are named, which a release does not show at a glance."""

import logging

import numpy as np
import pandas as pd
from filesets import write_fileset_of

import primo_scale as ps


def test_phenotypes_without_weights_are_named(tmp_path, caplog):
    random = np.random.default_rng(1)
    write_fileset_of(tmp_path / "people", random.binomial(2, 0.4, (5, 100)), range(1, 6))
    ids = pd.read_csv(tmp_path / "people.fam", sep=r"\s+", header=None, dtype=str)
    table = {"FID": ids[0], "IID": ids[1], "VARIES": random.random(100), "SAME": np.full(100, 0.5)}
    pd.DataFrame(table).to_csv(tmp_path / "pheno.tsv", sep="\t", index=False)
    rows = "".join(f"{name} 0 1 0.5 0.3 quantitative\n" for name in ("VARIES", "SAME"))
    (tmp_path / "bounds.tsv").write_text("name lower upper mean sd type\n" + rows)
    with caplog.at_level(logging.WARNING, "primo_scale"):
        ps.release(
            ps.ReleaseRequest(
                genotypes=ps.GenotypeFiles(tmp_path / "people"),
                outcomes=ps.OutcomeTables(tmp_path / "pheno.tsv", tmp_path / "bounds.tsv"),
                privacy=ps.Privacy(non_private=True),
                out=tmp_path / "release",
            )
        )
    (said,) = [line for line in caplog.messages if "all weights are 0" in line]
    assert "of 1 of 2 phenotypes" in said
    assert said.endswith(": SAME")
