"""Releases of real data state no fit to the cohort, and those without noise are marked."""

import re

from support.acceptance_inputs import Published, RealSet, texts

FIT = re.compile(r"in.sample|R\s*(\^|<sup>)\s*2|R²|r_?squared|\br_?2\b", re.IGNORECASE)
# What a release expects from public sizes alone.
EXPECTED = re.compile(
    r'R(\^|<sup>)2(</sup>)? [\d.e-]+ (<small>)?(expected|in other people)|"r_squared":'
)


def test_no_fit_to_the_cohort_is_stated_but_missing_components(real_sets, run, tmp_path) -> None:
    """LD blocks are fitted separately: all predict ancestry, which their sum counts repeatedly."""
    inputs: RealSet = real_sets["regenie"]
    listed, out, work = (tmp_path / name for name in ("variants.txt", "release", "work"))
    listed.write_text("\n".join(inputs.bim["ID"][:600]) + "\n")
    done = run("gwas_release", *inputs.options, "--extract", listed, "--ref-freq",
               inputs.frequencies, "--ld-blocks", "window:50", "--work-dir", work, "--ledger",
               tmp_path / "ledger.sqlite", "--accept-noise", "--epsilon", 5, "--delta", 1e-6,
               "--out", out)  # fmt: skip
    assert "verified:" in run("verify", out).stdout
    said = {**texts(out), "terminal": done.stdout, "run.log": (work / "run.log").read_text()}
    said = {name: EXPECTED.sub("", text) for name, text in said.items()}
    assert {name: FIT.findall(text) for name, text in said.items() if FIT.search(text)} == {}
    warned = "No covariate is named as a principal component"
    for name in ("report.html", "run.log"):
        assert warned in " ".join(said[name].split())


def test_every_file_of_a_release_without_noise_is_marked(real_sets, run, tmp_path) -> None:
    inputs: RealSet = real_sets["regenie"]
    listed = tmp_path / "variants.txt"
    listed.write_text("\n".join(inputs.bim["ID"][:20]) + "\n")
    out = tmp_path / "release"
    run("gwas_release", *inputs.options, "--extract", listed, "--non-private",
        "--out", out)  # fmt: skip
    files = texts(out)
    assert set(files) == {"weights.tsv.gz", "centre.afreq", "release.json", "report.html",
                          "README.txt", "covariates.tsv", "pgs/Y1.txt.gz",
                          "pgs/Y2.txt.gz"}  # fmt: skip
    assert [name for name, text in files.items() if not re.search("NOT[ _]PRIVATE", text)] == []
    assert [name for name, text in files.items() if FIT.search(EXPECTED.sub("", text))] == []
    assert Published(out).statement["guarantee"] is None
    assert "NOT PRIVATE" in run("verify", out).stdout
