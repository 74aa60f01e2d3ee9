"""Two cohorts that agree in public facts alone give equal releases, for every option.

The noisy statistics of the second run are replaced by those of the first: whatever differs then
is a private fact that went around the noise.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.every_option import (
    GENOTYPES,
    PHENOTYPES,
    Case,
    release_words,
    write_cohort,
    write_public,
)
from support.small_cohort import command, succeeded

from primo_scale.cli.commands import release
from primo_scale.ledger.ledger import Ledger
from primo_scale.privacy import payment
from primo_scale.run import publishing

QUICK = {
    "full": Case("--ld-blocks window:5"),
    "private n": Case(
        "--adjacency add-remove --nominal-n 600 --ref-freq p.afreq --sumstats", people=(600, 720)
    ),
    "label": Case("--privacy label --ref-freq p.afreq --sumstats", PHENOTYPES),
    "feature": Case("--privacy feature --ld-blocks window:5", GENOTYPES),
    "hold-out": Case(
        "--hold-out 0.3 --calibrate --ref-freq p.afreq --prior-weights T=p.score",
        people=(120, 120),
    ),
    "LD components": Case("--ref-freq p.afreq --ld-panel p --pc-loadings p.eigenvec.allele"),
    "dosages": Case("--dosages --ref-freq p.afreq --ld-blocks window:5", source="--pfile"),
}
SLOW = {
    "private n, all of it": Case(
        "--adjacency add-remove --nominal-n 600 --ref-freq p.afreq --ld-panel p "
        "--pc-loadings p.eigenvec.allele --prior-weights T=p.score",
        people=(600, 720),
    ),
    "private n, projected": Case(
        "--adjacency add-remove --nominal-n 600 --method reuse-cov-proj --epsilon 1",
        people=(600, 720),
    ),
    "label, add-remove": Case("--privacy label --adjacency add-remove", PHENOTYPES),
    "feature, add-remove": Case("--privacy feature --adjacency add-remove", GENOTYPES),
    "label, hold-out": Case("--privacy label --hold-out 0.3", PHENOTYPES, people=(120, 120)),
    "feature, hold-out": Case(
        "--privacy feature --hold-out 0.3 --pc-loadings p.eigenvec.allele --ref-freq p.afreq",
        GENOTYPES, people=(120, 120),
    ),
    "hold-out, components": Case(
        "--hold-out 0.3 --ref-freq p.afreq --ld-panel p --calibrate "
        "--pc-loadings p.eigenvec.allele --panel-populations p.populations",
        people=(120, 120),
    ),
    "variants of the panel": Case("--ref-freq p.afreq --ld-panel p --no-ld-components --sumstats"),
    "one round": Case("--ref-freq p.afreq --ld-panel p --rounds 1"),
    "genetic factors": Case("--ref-freq p.afreq --ld-panel p --genetic-factors 2"),
    "chosen variants": Case("--ref-freq p.afreq --extract-by-prior p.score --top 9"),
    "subsample": Case("--subsample 20"),
    "eigenvalue": Case("--method ada-ssp-budget --gamma 0.2"),
    "many phenotypes": Case("--ref-freq p.afreq", phenotypes=101),
    "ridge": Case("--ridge 10 --row-norm 3 --ref-freq p.afreq"),
    "projected genotypes": Case("--method reuse-cov-proj-x --privacy label", PHENOTYPES),
    "projected phenotypes": Case("--method reuse-cov-proj-y --privacy feature", GENOTYPES),
    **{
        f"method {name}": Case(f"--method {name} --ld-blocks window:5")
        for name in ("reuse-cov-gauss", "reuse-cov-proj", "ssp", "const-ssp-full", "naive")
    },
}  # fmt: skip


@dataclass
class Wall:
    """Noisy statistics that crossed the wall, in the order of the first run."""

    crossed: list[Any] = field(default_factory=list)
    exact: list[str] = field(default_factory=list)  # digests of the exact statistics of each run
    is_second: bool = False

    def passed(self, function: Callable[..., Any], move: Callable[[Any, Any], Any]) -> Any:
        """Return a function whose result in the second run is what `move` makes with the first."""

        def wrapped(raw: Any, *arguments: Any, **options: Any) -> Any:
            found = function(raw, *arguments, **options)
            self.exact += [raw.sha256] if hasattr(raw, "sha256") else []
            if not self.is_second:
                self.crossed.append(found)
                return found
            return move(found, self.crossed.pop(0))

        return wrapped


def released(folder: Path, case: Case, wall: Wall, patch: pytest.MonkeyPatch) -> dict[str, str]:
    """Make a release in a folder; return its files, and what a batch job would show."""
    patch.chdir(folder)
    # Random identifiers and the date are made equal; everything else is the program's.
    patch.setattr(payment, "random_charge_id", map("{:016x}".format, count()).__next__)
    day = datetime(2026, 1, 1, tzinfo=UTC)
    patch.setattr(publishing, "datetime", SimpleNamespace(now=lambda _: day))
    patch.setenv("PRIMO_SCALE_BATCH_JOB", "1")
    patch.setattr(
        payment, "draw_statistics",
        wall.passed(payment.draw_statistics, lambda own, other: replace(
            own, matrices=other.matrices)),
    )  # fmt: skip
    for name in ("draw_second_round", "measure_once"):
        function = getattr(payment, name)
        patch.setattr(payment, name, wall.passed(function, lambda own, other: other))
    patch.setattr(
        payment, "pay_for_adjustment",
        wall.passed(payment.pay_for_adjustment, lambda own, other: (
            replace(own[0], grams=other[0].grams), own[1])),
    )  # fmt: skip
    done = succeeded(command(release, *release_words(case)))
    patch.undo()
    out = folder / "release"
    files = {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*.*")}
    shown = (done.stdout + done.stderr).replace(str(folder), "")
    return {**files, "output of a batch job": shown.encode()}


@pytest.mark.parametrize(
    "case",
    [
        *(pytest.param(case, id=name) for name, case in QUICK.items()),
        *(pytest.param(case, id=name, marks=pytest.mark.slow) for name, case in SLOW.items()),
    ],
)
def test_nothing_but_noisy_statistics_reaches_a_release(case: Case, tmp_path: Path) -> None:
    wall, found = Wall(), []
    with Ledger(tmp_path / "ledger"):  # one signing key
        pass
    for folder in (tmp_path / "first", tmp_path / "second"):
        folder.mkdir()
        shutil.copy(tmp_path / "ledger", folder / "ledger")
        write_public(folder)
        wall.is_second = folder.name == "second"
        write_cohort(folder, case, second=wall.is_second)
        with pytest.MonkeyPatch.context() as patch:
            found.append(released(folder, case, wall, patch))
    assert not wall.crossed
    half = len(wall.exact) // 2
    assert half and set(wall.exact[:half]).isdisjoint(wall.exact[half:])  # the cohorts differ
    first, second = found
    assert first.keys() == second.keys()
    assert [each for each, content in first.items() if content != second[each]] == []
