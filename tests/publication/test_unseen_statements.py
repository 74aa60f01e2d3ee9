"""What a signer can falsify unseen: every value of release.json, changed alone and signed again.

docs/report.md lists the members in the table of "What only the signer knows".
"""

import copy
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.documents import places, read_document, value_at
from support.every_option import PHENOTYPES, Case, release_words, write_cohort, write_public
from support.release_edits import problems, restate
from support.release_examples import PUBLIC_KEY, example_statement, example_weights, publish
from support.release_mutations import CANNOT_BE_SIGNED
from support.small_cohort import command, succeeded

from primo_scale.cli.commands import release
from primo_scale.ledger.ledger import Ledger
from primo_scale.publication.signed_document import Signer
from primo_scale.publication.verify import verify

PAGE = Path(__file__).resolve().parents[2] / "docs" / "report.md"
CASES = {
    "hold-out": Case(
        "--hold-out 0.3 --calibrate --ref-freq p.afreq --prior-weights T=p.score --ld-panel p "
        "--pc-loadings p.eigenvec.allele --panel-populations p.populations --cohort c",
        people=(120, 120),
    ),
    "sumstats": Case("--ref-freq p.afreq --sumstats --ld-blocks window:5"),
    "private n": Case("--adjacency add-remove --nominal-n 50 --method ada-ssp-budget --gamma 0.2"),
    "subsample": Case("--subsample 20"),
    "label": Case("--privacy label --method reuse-cov-proj-x", PHENOTYPES),
    "factors": Case(
        "--ref-freq p.afreq --ld-panel p --genetic-factors 2 --pc-loadings p.eigenvec.allele"
    ),
    "ridge": Case("--ridge 10"),
}


def documented(condition: str = "") -> set[str]:
    """Return the members that the page lists, which may have members of their own.

    With a `condition`, only those of the rows that have it.
    """
    section = PAGE.read_text(encoding="utf-8").split("### What only the signer knows\n")[1]
    table = [line for line in section.split("\n#")[0].splitlines() if line.startswith("|")]
    table = [line for line in table if condition in line]
    return set(re.findall(r"`([a-z_.0-9]+)`", "\n".join(table)))


def is_documented(member: str, listed: set[str]) -> bool:
    return any(member == each or member.startswith(f"{each}.") for each in listed)


def other_values(value: Any) -> Iterator[Any]:
    """Yield values beyond all relative tolerances of the check."""
    match value:
        case bool():
            yield not value
        case int():
            few = abs(value) < 10_000
            yield from (value + (1 if few else value // 1000), 2 * value, value // 2)
            yield max(value - (1 if few else value // 1000), 0)
        case float():
            yield from (1.001 * value, 0.999 * value, 2 * value, value / 2)
            if abs(value) < 1e-9:  # the rounding of 0
                yield 0.01
        case str():
            yield "another"
            yield value[:-1] + ("0" if value[-1:] != "0" else "1")
        case None:
            yield from (0.5, 1, "another")


def signed_release(folder: Path, case: Case, patch: pytest.MonkeyPatch) -> tuple[Path, Signer]:
    """Make a release in a folder; return it, and what signs like its ledger."""
    write_public(folder)
    write_cohort(folder, case, second=False)
    patch.chdir(folder)
    succeeded(command(release, *release_words(case)))
    ledger = Ledger(folder / "ledger").__enter__()
    return folder / "release", Signer(ledger.public_key, ledger.sign)


def unseen_members(directory: Path, signer: Signer) -> set[str]:
    """Return the members of which some value can be changed unseen."""
    document, place, found = read_document(directory), directory.with_name("copy"), set()
    assert verify(directory, public_key=signer.public_key).ok
    for path in places(document):
        old = value_at(document, path)
        member = ".".join(name for name in path if isinstance(name, str))
        skipped = path[0] in ("files", "signature") or isinstance(old, dict | list)
        if skipped or member in found:
            continue
        # The accuracy is computed from the same numbers, and may differ by 1e-6.
        tolerance = 2e-6 if path[0] == "hold_out" and isinstance(old, float) else 0
        for new in other_values(old):
            if tolerance and abs(new - old) < tolerance:
                continue
            changed = copy.deepcopy(document)
            value_at(changed, path[:-1])[path[-1]] = new
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(directory, place)
            try:
                restate(place, changed, signer)
            except CANNOT_BE_SIGNED:
                continue  # no text can be rendered of it
            if new != old and verify(place, public_key=signer.public_key).ok:
                found.add(member)
                break
    return found


@pytest.mark.slow
def test_the_page_lists_all_that_can_be_false_and_nothing_else(tmp_path: Path, monkeypatch) -> None:
    found: set[str] = set()
    for name, case in CASES.items():
        (tmp_path / name).mkdir()
        directory, signer = signed_release(tmp_path / name, case, monkeypatch)
        found |= unseen_members(directory, signer)
    listed = documented()
    assert {"hold_out.people", "cohort.n_samples", "public_inputs.phenotypes.sd"} <= listed
    assert sorted(member for member in found if not is_documented(member, listed)) == []
    # Whether the results stay the same depends on the noise.
    always = listed - documented("as long as the results that follow are the same")
    assert sorted(each for each in always if not any(is_documented(m, {each}) for m in found)) == []


def test_other_weights_verify_with_the_same_numbers(tmp_path: Path) -> None:
    """The weights are the signer's own statement too."""
    weights, statement = example_weights(), example_statement(example_weights())
    other = type(weights)(**{**vars(weights), "per_allele": np.ones_like(weights.per_allele)})
    assert problems(publish(tmp_path / "out", other, statement), PUBLIC_KEY) == []
