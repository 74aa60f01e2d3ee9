"""``python -m primo_scale audit``, which accuses a sound mechanism with probability 1e-9 here."""

import pytest
from support.small_cohort import command, refused, succeeded

from primo_scale.audit.mechanism_audit import audit_subjects
from primo_scale.cli.commands import audit as main
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.methods.catalogue import METHODS
from primo_scale.privacy.private_statistics import NoisyMatrices

CLAIM = ["--epsilon", "3", "--delta", "1e-3", "--runs", "1000", "--confidence", "0.999999999"]
ONE = ["--method", "ssp"]


def run(*arguments):
    return command(main, *CLAIM, *arguments)


def test_a_line_for_each_mechanism_and_exit_0():
    result = run("--method", "reuse-cov-proj-x", "--privacy", "label", "--adjacency", "all")
    lines = succeeded(result).output.splitlines()
    assert "no data is read, no budget is spent" in lines[1]
    assert lines[2].startswith("not audited: people held out, adjustments, releases of parties")
    assert len(lines) == 4 + 2 + 1
    for line in lines[4:6]:
        assert line.startswith("label ")
        assert "within the claim" in line
        assert line.endswith("reuse-cov-proj-x")
    assert lines[-1] == "no evidence against any of 2 claims"


@pytest.mark.slow
def test_a_part_without_noise_ends_with_exit_1_and_says_where(monkeypatch):
    monkeypatch.setattr(NoisyMatrices, "counts", lambda noisy, counts: counts)
    result = run(*ONE, "--adjacency", "add-remove")
    assert result.exit_code == 1
    assert result.output.count("EXCEEDS THE CLAIM") == 2
    assert "    phenotypes: mu 0.166 stated, at least " in result.output
    assert result.output.splitlines()[-1] == "AUDIT FAILED: 2 of 2 mechanisms"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "nonsense"], "no such method"),
        (["--method", "nonsense", "--privacy", "all"], "no such method"),
        (["--method", "ssp", "--privacy", "label"], "not for label privacy"),
        (["--method", "sub-samp-reuse-cov", "--adjacency", "add-remove"], "replace-one alone"),
        (["--epsilon", "1000"], "epsilon is outside"),
        (["--delta", "0.1"], "delta is outside"),
        (["--runs", "10"], "--runs"),
        # With nan every comparison is false, and every claim would pass.
        *((["--confidence", value], "--confidence") for value in ("nan", "inf", "0", "1")),
    ],
)
def test_impossible_requests_are_one_line_and_exit_2(arguments, message):
    result = run(*arguments)
    refused(result, 2, message)
    assert len(result.output.splitlines()) == 1


def test_all_means_every_method_and_every_promise():
    subjects = list(audit_subjects("all", "all", "all", epsilon=3.0, delta=1e-3))
    audited = {
        (name, mechanism.promise.unit, mechanism.promise.adjacency)
        for methods, mechanism in subjects
        for name in methods
    }
    expected = {
        (name, unit, adjacency)
        for name, method in METHODS.items()
        for unit in method.privacy
        for adjacency in Adjacency
        if adjacency is Adjacency.REPLACE_ONE or not method.subsamples
    }
    assert audited == expected
    assert len({mechanism for _, mechanism in subjects}) == len(subjects)
    blocks = {m.promise.unit for _, m in subjects if m.bounds.block_norms}
    assert blocks == {PrivacyUnit.FULL, PrivacyUnit.FEATURE}
