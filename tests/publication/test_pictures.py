"""Pictures of report.html: where points lie, what they are drawn from, and their bounded size."""

import dataclasses
import math
import re

import numpy as np
import pytest
from support.documents import read_document
from support.release_edits import cell, problems, rewrite
from support.release_examples import example_statement, example_weights, publish

from primo_scale.publication import pictures
from primo_scale.publication.pictures import HEIGHT, WIDTH, Panel, draw_pictures
from primo_scale.publication.statement import ReferenceFrequencies


def points_of(panel: Panel) -> list[tuple[int, int]]:
    return [(int(x), int(y)) for x, y in re.findall(r"M(\d+) (\d+)h0", panel.points)]


def drawn(directory) -> dict[str, tuple[Panel, ...]]:
    return draw_pictures(directory, read_document(directory))


def weights_of(values, phenotypes=("height", "LDL")):
    """Return weights of 7 variants with these effects per allele on every phenotype."""
    per_allele = np.repeat(np.array(values, dtype=float)[:, None], len(phenotypes), axis=1)
    return dataclasses.replace(example_weights(phenotypes=phenotypes), per_allele=per_allele)


@pytest.fixture(scope="module")
def simple(tmp_path_factory):
    """A release whose weights on the example's genotypes, of sd sqrt(1/2), are simple numbers."""
    weights = weights_of([0, -4, 1, 2, 0, 0, -2])
    out = tmp_path_factory.mktemp("simple") / "out"
    return publish(out, weights, example_statement(weights))


def test_weights_along_the_genome_lie_at_their_heights(simple):
    along = drawn(simple)["height"][0]
    tops = [0, 4, 1, 2, 0, 0, 2]
    upper = 3.0  # the round number above 4 sqrt(1/2)
    expected = [
        (math.floor((j + 0.5) / 7 * WIDTH), HEIGHT - round(top * math.sqrt(0.5) / upper * HEIGHT))
        for j, top in enumerate(tops)
    ]
    assert points_of(along) == expected
    assert along.y_ticks == ((HEIGHT, "0"), (1267, "1"), (633, "2"), (0, "3"))
    assert along.x_ticks == ((WIDTH // 2, "22"),)


def test_names_of_short_chromosomes_are_left_out():
    chromosomes = ["1"] * 60 + ["2"] * 20 + ["3"] * 920
    along = pictures._along_the_genome(
        pictures._Effects(chromosomes, np.ones(1000), np.full(1000, 0.5))
    )
    assert [name for _, name in along.x_ticks] == ["1", "3"]
    assert [place for place, _ in along.x_ticks] == [round(0.03 * WIDTH), round(0.54 * WIDTH)]


def test_blocks_show_the_root_mean_square_beside_both_errors(simple):
    document = read_document(simple)
    block = drawn(simple)["height"][1]
    (query,) = (q for q in document["mechanism"]["queries"] if q["name"] == "phenotype_cross")
    people, unit = 1000, 1024
    noise = query["sigma"][0] / (people * math.sqrt(0.5) * unit * 0.9)
    rms = [math.sqrt((16 + 1) / 3 / 2), math.sqrt((4 + 4) / 4 / 2)]
    names = {name: 1 - place / HEIGHT for place, name in block.lines}
    top = float(block.y_ticks[-1][1])
    heights = [(1 - y / HEIGHT) * top for _, y in points_of(block)]
    assert heights == pytest.approx(rms, abs=top / HEIGHT)
    levels = {"sampling of people": 1 / math.sqrt(people), "noise of this release": noise}
    assert {name: share * top for name, share in names.items()} == pytest.approx(
        levels, abs=top / HEIGHT
    )


def test_noise_on_components_is_not_drawn_as_noise_on_variants(simple):
    document = read_document(simple)
    document["cohort"]["component_sizes"] = [1, 2]
    *_, block = draw_pictures(simple, document)["height"]
    assert [name for _, name in block.lines] == ["sampling of people"]


def test_effects_by_frequency_are_drawn_where_there_is_a_panel(tmp_path):
    weights = weights_of([0, -4, 1, 2, 0, 0, -2])
    weights = dataclasses.replace(weights, centre_dosage=np.array([1.0] * 6 + [0.5]))
    reference = ReferenceFrequencies("panel.afreq", "0" * 64)
    statement = example_statement(weights, reference=reference)
    inputs = dataclasses.replace(statement.public_inputs, genotype_unit=16)
    directory = publish(
        tmp_path / "out", weights, dataclasses.replace(statement, public_inputs=inputs)
    )
    _, panel, _ = drawn(directory)["height"]
    shares = {(x / WIDTH, round((1 - y / HEIGHT) * 8 - 4, 1)) for x, y in points_of(panel)}
    middle, lower = 30.5 / 60, 15.5 / 60
    expected = {(middle, -4.0), (middle, 0.0), (middle, 1.0), (middle, 2.0), (lower, -2.0)}
    assert sorted(shares) == [(pytest.approx(x, abs=1e-3), y) for x, y in sorted(expected)]


def test_only_the_first_phenotypes_are_drawn(tmp_path):
    names = tuple(f"P{number}" for number in range(5))
    weights = weights_of(range(7), names)
    directory = publish(tmp_path / "out", weights, example_statement(weights))
    assert list(drawn(directory)) == list(names[: pictures.MOST_PHENOTYPES])


def test_a_million_variants_keep_the_largest_and_a_bounded_size(tmp_path):
    rng = np.random.default_rng(1)
    values = np.abs(rng.normal(size=1_000_000))
    values[[3, 499_999, 999_999]] = 50, 60, 70
    path = pictures._points(values, 70.0)
    points = re.findall(r"M(\d+) (\d+)h0", path)
    assert len(points) == 1440 and len(path) < 24_000
    assert ("0", str(HEIGHT - round(50 / 70 * HEIGHT))) in points
    assert (str(WIDTH - 1), "0") in points


@pytest.mark.parametrize("largest", [0.0, 5e-324, 1e-299, 1e300, 1.7976931348623157e308])
def test_extreme_weights_are_drawn(tmp_path, largest):
    weights = weights_of([0, -largest, 0, 0, 0, 0, largest / 2])
    directory = publish(tmp_path / "out", weights, example_statement(weights))
    assert all(len(points_of(panel)) for panel in drawn(directory)["height"])


def test_pictures_follow_from_the_weights_and_from_nothing_else(release):
    """Another weight in both files, signed by the custodian, contradicts the drawn one."""
    for name, row, column in (("weights.tsv.gz", 4, 6), ("pgs/height.txt.gz", -5, 5)):
        rewrite(release, name, cell(row, column, "1.5"))
    (problem,) = problems(release)
    assert problem.startswith("contents: report.html differs")


def test_every_picture_of_a_release_without_noise_is_stamped(pristine):
    page = (pristine[False] / "report.html").read_text()
    captions = re.findall(r"</svg>\s*<p[^>]*>(.*?)</p>", page, re.DOTALL)
    assert len(captions) == 4 and all("NOT PRIVATE" in caption for caption in captions)
    lines = [line for panels in drawn(pristine[False]).values() for p in panels for line in p.lines]
    assert {name for _, name in lines} == {"sampling of people"}
