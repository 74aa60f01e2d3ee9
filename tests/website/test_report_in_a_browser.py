"""report.html in Chromium: axe-core finds nothing, pages fit, look as accepted, and print."""

import dataclasses
import html
import json
import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from browser import LIMIT, WINDOWS, accepted, checked, loaded, n_pages, seen, written
from support.filesets import variants_with
from support.release_examples import (
    PUBLIC_KEY,
    example_coding,
    example_statement,
    example_weights,
)

from primo_scale.publication.publish import statement_document
from primo_scale.publication.texts import render_report
from primo_scale.verify.formats import chromosomes_of

_HEIGHT = {1400: 3000, 390: 6000}  # pixels: from the tiles to the table of phenotypes
_SEARCH = """<script>
const field = document.getElementById("search");
field.value = "Trait 27";
field.dispatchEvent(new Event("input"));
const shown = selector => [...document.querySelectorAll(selector)].filter(
  each => each.getClientRects().length).map(each => each.firstElementChild.textContent);
const result = document.createElement("pre");
result.id = "shown";
result.textContent = JSON.stringify([shown("#all tbody tr"), shown("figure")]);
document.body.append(result);
</script></body>"""

pytestmark = pytest.mark.slow


def held_out(name: str, is_binary: bool) -> dict[str, Any]:
    """Return an accuracy that a release measured; half of the phenotypes have a caution."""
    slope = 0.4 if int(name[-1]) % 2 else 1.0
    ends = {"slope_lower": slope - 0.1, "slope_upper": slope + 0.1}
    measures = {"r2": 0.2, "r2_lower": 0.15, "r2_upper": 0.25, "slope": slope, **ends}
    groups = [{"name": group, **measures} for group in ("within groups", "EUR", "AFR")]
    binary = ("auc", "auc_lower", "auc_upper")
    binary += ("liability_r2", "liability_r2_lower", "liability_r2_upper")
    numbers = (0.7, 0.6, 0.8) * 2 if is_binary else (None,) * 6
    return {"name": name, **measures, "calibration": 1.0, "groups": groups,
            "counts": [1, 1], **dict(zip(binary, numbers, strict=True))}  # fmt: skip


@cache
def report(n_phenotypes: int = 10, n_variants: int = 4000, *, private: bool = True) -> str:
    """Return a report over 22 chromosomes, of which every third phenotype is binary."""
    rng = np.random.default_rng(42)
    length = np.linspace(250, 50, 22)
    chromosome = np.sort(rng.choice(22, n_variants, p=length / length.sum()))
    variants = variants_with(
        n_variants,
        chromosome=(chromosome + 1).astype(str).astype(object),
        identifier=np.array([f"rs{number + 10**6}" for number in range(n_variants)], object),
        position=(np.arange(n_variants) + 1) * 50_000,
    )
    phenotypes = tuple(f"trait {number}" for number in range(n_phenotypes))
    effects = 0.01 * rng.standard_t(3, (n_variants, n_phenotypes))
    weights = dataclasses.replace(
        example_weights(variants, phenotypes),
        per_allele=effects, centre_dosage=rng.uniform(0.02, 1.98, n_variants),
    )  # fmt: skip
    coding = example_coding(weights)
    bounds = [
        dataclasses.replace(each, lower=0.0, upper=1.0, mean=0.2, sd=0.4, kind="binary")
        if number % 3 == 2
        else each
        for number, each in enumerate(coding.phenotypes)
    ]
    coding = dataclasses.replace(coding, phenotypes=tuple(bounds))
    statement = example_statement(weights, private=private, outcomes=coding)
    document = statement_document(statement)
    document["chromosomes"] = chromosomes_of(variants.chromosome)
    if private:
        measured = [held_out(each.name, each.kind == "binary") for each in bounds]
        document["hold_out"] = {"people": 100, "unit": 1, "constant": 1, "phenotypes": measured}
    return render_report(document, PUBLIC_KEY if private else None, weights)


@pytest.mark.parametrize("private", [True, False], ids=["private", "not-private"])
@pytest.mark.parametrize(("width", "dark"), WINDOWS)
def test_the_report_is_accessible_and_fits_the_window(width, dark, private, tmp_path):
    page = report(14, private=private).replace("<details>", "<details open>")
    result = checked(page, tmp_path, width=width, dark=dark)
    assert (result["violations"], result["dark"], result["width"]) == ([], dark, width)
    assert result["passes"] > 20 and result["overflow"] <= 0


@pytest.mark.parametrize(("width", "dark"), WINDOWS)
def test_the_report_looks_as_accepted(width, dark, tmp_path):
    """A line more moves what follows, and differs more than the limit."""
    window = {"width": width, "dark": dark, "height": _HEIGHT[width]}
    now = seen(written(report(), tmp_path), tmp_path, **window)
    before = accepted(f"report-{width}-{'dark' if dark else 'light'}", now)
    assert np.abs(now - before).mean() < LIMIT
    longer = report().replace("<h2 id", "<p>A line.</p><h2 id", 1)
    assert np.abs(seen(written(longer, tmp_path), tmp_path, **window) - before).mean() > LIMIT


def test_ten_phenotypes_take_five_pages(tmp_path):
    assert n_pages(report(), tmp_path) <= 5


def test_the_sign_off_prints_on_a_page_of_its_own(tmp_path):
    """What the guarantee means is on the first page, the sign-off on the second."""
    before, rest = report().split('<section class="sign-off"')
    section, after = rest.split("</section>", 1)
    through = f'{before}<section class="sign-off"{section}</section>'
    assert [n_pages(page, tmp_path) for page in (before, through, f"{through}<p>more")] == [1, 2, 3]
    assert after.count("<h2") > 5


def test_the_search_leaves_one_of_thirty_phenotypes(tmp_path):
    page = loaded(report(30).replace("</body>", _SEARCH), tmp_path)
    (result,) = re.findall(r'<pre id="shown">(.*?)</pre>', page, re.DOTALL)
    assert json.loads(html.unescape(result)) == [["trait 27"], ["trait 27"]]


def test_sixty_phenotypes_of_many_variants_take_less_than_a_megabyte():
    assert len(report(60, 50_000).encode()) < 1e6
