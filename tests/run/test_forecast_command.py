"""Forecasts of releases from a public panel, before a cohort is read."""

import itertools
import json
import logging

import attrs
import numpy as np
import pytest
from support.command_io import PANEL, simulated
from support.filesets import write_fileset_of, written
from support.small_cohort import command, refused, succeeded

import primo_scale as ps
import primo_scale.run.forecast as forecast_module
from primo_scale.cli.commands import plan as main
from primo_scale.errors import InputError, UsageError

N, D = 2000, 700


@pytest.fixture(scope="module")
def variants(tmp_path_factory):
    path = tmp_path_factory.mktemp("forecast") / "variants.txt"
    lines = PANEL.with_suffix(".bim").read_text().splitlines()[:D]
    path.write_text("".join(line.split("\t")[1] + "\n" for line in lines))
    return path


@pytest.fixture(scope="module")
def few(variants):
    """Fewer variants, for a test of many forecasts."""
    path = variants.with_name("few.txt")
    path.write_text("".join(variants.read_text().splitlines(keepends=True)[:150]))
    return path


def request(extract, **changes):
    whole = {"people": (N, 50 * N), "phenotypes": (1, 20), "epsilon": (0.5, 5.0)} | changes
    return ps.ForecastRequest(ld_panel=PANEL, ref_freq=f"{PANEL}.afreq", extract=extract, **whole)


@pytest.fixture(scope="module")
def rows(variants):
    return {
        (row.people, row.phenotypes, row.epsilon): row for row in ps.forecast(request(variants))
    }


@pytest.mark.slow
def test_more_people_or_epsilon_and_fewer_phenotypes_explain_more(rows):
    for people, phenotypes in itertools.product((N, 50 * N), (1, 20)):
        assert rows[people, phenotypes, 5.0].r2 > rows[people, phenotypes, 0.5].r2
    for people, epsilon in itertools.product((N, 50 * N), (0.5, 5.0)):
        assert rows[people, 1, epsilon].r2 > rows[people, 20, epsilon].r2
    for phenotypes, epsilon in itertools.product((1, 20), (0.5, 5.0)):
        assert rows[50 * N, phenotypes, epsilon].r2 > rows[N, phenotypes, epsilon].r2
    for row in rows.values():
        assert 0 < row.r2 < row.r2_without_noise < 0.3
        assert row.effective_people < row.people
        assert row.variants == D
        assert row.delta == row.people**-2.0


def test_components_explain_more_than_variants(variants, rows):
    without = ps.forecast(
        request(variants, people=N, phenotypes=20, epsilon=0.5, ld_components=False)
    )
    (row,) = without
    assert row.columns == D
    assert row.r2 < rows[N, 20, 0.5].r2
    assert row.r2_without_noise == rows[N, 20, 0.5].r2_without_noise


def test_components_of_a_small_panel_explain_more_than_variants_without_ld(tmp_path):
    """60 people define 47 of 400 directions, and show that correlations are near 0."""
    dosages = np.random.default_rng(3).binomial(2, 0.4, (400, 60))
    write_fileset_of(tmp_path / "panel", dosages, range(10**6, 401 * 10**6, 10**6))
    ids = [line.split()[1] for line in (tmp_path / "panel.bim").read_text().splitlines()]
    lines = [f"1\t{name}\tG\tA\t0.4\t120\n" for name in ids]
    written(tmp_path / "panel.afreq", "#CHROM\tID\tREF\tALT\tALT_FREQS\tOBS_CT\n" + "".join(lines))
    whole = ps.ForecastRequest(
        ld_panel=tmp_path / "panel",
        ref_freq=tmp_path / "panel.afreq",
        people=20_000,
        phenotypes=10,
        epsilon=5,
    )
    (of_components,), (of_variants,) = map(
        ps.forecast, (whole, attrs.evolve(whole, ld_components=False))
    )
    assert of_components.r2 > of_variants.r2


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    path = tmp_path_factory.mktemp("cohort") / "cohort"
    return simulated(path, N, 1, variants=D, phenotypes=1)


def choices(cohort, folder):
    """Options of a release and of its summation alone."""
    return {
        "pheno": f"{cohort}.pheno.tsv",
        "pheno_bounds": f"{cohort}.pheno-bounds.tsv",
        "epsilon": 5,
        "delta": N**-2,
        "ref_freq": f"{PANEL}.afreq",
        "ld_panel": PANEL,
        "ledger": folder / "ledger",
        "work_dir": folder / "work",
        "accept_noise": True,
    }


def test_the_forecast_is_that_of_a_plan_with_the_cohort(tmp_path, cohort, rows):
    planned = ps.plan(
        ps.ReleaseRequest(bfile=cohort, out=tmp_path / "out", **choices(cohort, tmp_path))
    )
    assert planned.accuracy.r_squared == pytest.approx(rows[N, 1, 5.0].r2, rel=1e-3)


def test_the_forecast_of_the_best_variants_is_that_of_every_stage(
    tmp_path, variants, cohort, score, caplog
):
    sizes = {"people": N, "phenotypes": 1, "epsilon": 5.0, "variants": 50}
    (row,) = ps.forecast(request(variants, extract_by_prior=score, **sizes))
    best = {"bfile": cohort, "extract_by_prior": score, "top": row.variants}
    options = choices(cohort, tmp_path)
    planned = [ps.plan(ps.ReleaseRequest(**best, out=tmp_path / "out", **options))]
    ps.ingest(**best, ref_freq=f"{PANEL}.afreq", out=tmp_path / "store", ld_panel=PANEL)
    with caplog.at_level(logging.INFO, "primo_scale"):
        planned.append(ps.plan(ps.AccumulateRequest(genotypes=tmp_path / "store", **options)))
    assert "heritability 0.3, of which these variants are taken to have 0.029, in" in caplog.text
    for each in planned:
        assert each.accuracy.r_squared == pytest.approx(row.r2, rel=1e-3)
        assert each.accuracy.without_noise == pytest.approx(row.r2_without_noise, rel=1e-3)
    ps.release(ps.ReleaseRequest(**best, out=tmp_path / "out", **options))
    stated = json.loads((tmp_path / "out" / "release.json").read_text())["accuracy"]
    assert stated["effective_sample_size"] == planned[0].accuracy.stated_size
    assert "a heritability of 0.029" in stated["definition"]


def test_a_choice_of_all_weighted_variants_is_stated_too(tmp_path, cohort, score):
    """They explain the whole score, but the variants without a weight are left out."""
    best = {"bfile": cohort, "extract_by_prior": score, "top": D}
    options = choices(cohort, tmp_path)
    ps.release(ps.ReleaseRequest(**best, out=tmp_path / "out", **options))
    stated = json.loads((tmp_path / "out" / "release.json").read_text())
    assert "--extract-by-prior" in [each["source"] for each in stated["public_inputs"]["sources"]]
    assert "a heritability of 0.3 " in stated["accuracy"]["definition"]


def test_a_panel_without_a_choice_by_a_score_is_refused(tmp_path, cohort):
    with pytest.raises(UsageError, match="ld_panel: a panel tells only"):
        ps.ingest(bfile=cohort, out=tmp_path / "store", ld_panel=PANEL)


def words_of(variants, *options):
    inputs = ["--ld-panel", PANEL, "--ref-freq", f"{PANEL}.afreq", "--extract", variants]
    return [*inputs, "--people", 1000, "--epsilon", 1, *options]


def test_the_command_prints_a_table_and_writes_its_files(tmp_path, variants):
    words = words_of(variants, "--phenotypes", "1,2", "--out", tmp_path / "out")
    found = succeeded(command(main, *words))
    assert len(found.stdout.splitlines()) == 4
    records = json.loads((tmp_path / "out" / "forecast.json").read_text())
    assert [record["phenotypes"] for record in records] == [1, 2]
    assert (tmp_path / "out" / "forecast.tsv").read_text().startswith("people\tphenotypes\t")
    nowhere = ("--ld-panel", tmp_path / "none")  # which a forecast would read first
    refused(command(main, *words, *nowhere), 3, "exists already")
    refused(command(main, *words, "--out", "s3://bucket/out"), 2, "is a URL")


def test_a_panel_without_a_name_is_refused(variants):
    refused(command(main, *words_of(variants), "--ld-panel", "/"), 3, "/.bim: no such file")


@pytest.mark.slow
def test_the_command_prints_what_reaches_a_target(few):
    words = words_of(few, "--phenotypes", "10", "--target", "80%")
    header, row = command(main, *words).stdout.splitlines()
    assert header.split()[-6:] == ["epsilon", "for", "people", "for", "phenotypes", "for"]
    (found,) = ps.forecast(request(few, people=1000, phenotypes=10, epsilon=1.0, target="80%"))
    reached = f"{found.target_epsilon:.3g}", found.target_people, found.target_phenotypes
    assert row.split()[-3:] == ["-" if each is None else str(each) for each in reached]


@pytest.mark.slow
def test_a_target_is_reached_at_the_stated_sizes_and_hardly_below(few):
    sizes = {"people": 8_000, "phenotypes": 20, "epsilon": 0.5}
    (row,) = ps.forecast(request(few, **sizes, target="80%"))
    assert row.r2 < 0.8 * row.r2_without_noise
    for size, better, worse in (
        ("epsilon", row.target_epsilon, 0.98 * row.target_epsilon),
        ("people", row.target_people, round(0.98 * row.target_people)),
        ("phenotypes", row.target_phenotypes, row.target_phenotypes + 1),
    ):
        (enough,) = ps.forecast(request(few, **{**sizes, size: better}))
        (too_few,) = ps.forecast(request(few, **{**sizes, size: worse}))
        assert enough.r2 >= 0.8 * enough.r2_without_noise
        assert too_few.r2 < 0.8 * too_few.r2_without_noise


@pytest.mark.slow
def test_more_people_than_the_sums_can_hold_do_not_end_the_search():
    """The search begins with 10^8 people."""
    sizes = {"people": 100_000, "phenotypes": 1000, "epsilon": 1.0}
    with pytest.raises(UsageError, match="64-bit integers"):
        ps.forecast(request(None, **{**sizes, "people": 10**8}))
    (row,) = ps.forecast(request(None, **sizes, target="80%"))
    assert row.target_people > 100_000


@pytest.mark.slow
def test_the_sizes_of_a_row_that_reaches_a_target_are_no_less_than_stated(few):
    """Also where they are beyond those that a search tries."""
    (row,) = ps.forecast(request(few, people=60, phenotypes=1, epsilon=1.0, target=1e-9))
    assert (row.target_people, row.target_epsilon) == (60, 0.05)


@pytest.mark.slow
def test_a_target_out_of_reach_is_none(few):
    (row,) = ps.forecast(request(few, people=N, phenotypes=1, epsilon=5.0, target=0.29))
    assert (row.target_epsilon, row.target_phenotypes) == (None, None)
    assert row.target_people > N


@pytest.mark.slow
def test_copies_of_the_panel_share_the_heritability(variants):
    """Twice as many variants and people, without noise, are the same study."""
    sizes = {"phenotypes": 1, "epsilon": 5.0}
    (one,) = ps.forecast(request(variants, people=N, **sizes))
    (two,) = ps.forecast(request(variants, people=2 * N, variants=2 * D, **sizes))
    assert (two.variants, two.columns > one.columns) == (2 * D, True)
    assert two.r2_without_noise == pytest.approx(one.r2_without_noise, rel=1e-3)


@pytest.fixture(scope="module")
def score(tmp_path_factory):
    """A score of every second one of the first variants."""
    path = tmp_path_factory.mktemp("score") / "score.txt"
    lines = ["rsID\tchr_name\tchr_position\teffect_allele\tother_allele\teffect_weight"]
    rows = [line.split("\t") for line in PANEL.with_suffix(".bim").read_text().splitlines()[:D:2]]
    for weight, (chromosome, name, _, position, counted, other) in enumerate(rows, 1):
        lines.append(f"{name}\t{chromosome}\t{position}\t{counted}\t{other}\t{weight}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.slow
def test_the_best_variants_are_those_of_the_score(tmp_path, variants, score):
    sizes = {"people": 50 * N, "phenotypes": 20, "epsilon": 5.0, "extract_by_prior": score}
    few, half = ps.forecast(request(variants, **sizes, variants=(50, D // 2)))
    assert few.r2_without_noise < half.r2_without_noise < 0.3
    frequencies = PANEL.with_suffix(".afreq").read_text().splitlines()[1 : D + 1 : 2]
    varying = [line.split()[1] for line in frequencies if 0 < float(line.split()[4]) < 1]
    assert (few.variants, half.variants) == (50, len(varying))
    named = tmp_path / "half.txt"
    named.write_text("\n".join(varying) + "\n")
    (same,) = ps.forecast(request(named, people=50 * N, phenotypes=20, epsilon=5.0))
    assert half.r2 == pytest.approx(same.r2, rel=1e-9)


def test_a_score_without_weights_in_the_panel_is_refused(tmp_path, variants, score):
    lines = [line.rsplit("\t", 1)[0] for line in score.read_text().splitlines()]
    nothing = tmp_path / "nothing.txt"
    nothing.write_text("\n".join([f"{lines[0]}\teffect_weight", *(f"{x}\t0" for x in lines[1:])]))
    with pytest.raises(InputError, match="gives no variant of the panel a weight"):
        ps.forecast(request(variants, extract_by_prior=nothing, variants=50))


@pytest.mark.parametrize("people", [20_000, 10**6])
def test_noise_never_adds_accuracy(tmp_path, people):
    """Also where variants vary more in the panel than their public frequencies say."""
    lines = PANEL.with_suffix(".bim").read_text().splitlines()[200:250]
    listed = tmp_path / "listed.txt"
    listed.write_text("".join(line.split("\t")[1] + "\n" for line in lines))
    (row,) = ps.forecast(request(listed, people=people, phenotypes=1, epsilon=8.0))
    assert 0.9 * row.r2_without_noise < row.r2 <= row.r2_without_noise
    assert row.effective_people < people


def test_fewer_variants_without_a_ranking_are_refused(variants):
    with pytest.raises(UsageError, match="which variants of the panel to choose"):
        ps.forecast(request(variants, variants=D - 1))


@pytest.mark.slow
def test_frequencies_of_another_population_are_named(tmp_path, variants, caplog):
    sizes = {"people": N, "phenotypes": 1, "epsilon": 5.0}
    with caplog.at_level(logging.WARNING, "primo_scale"):
        ps.forecast(request(variants, **sizes))
    assert "different populations" not in caplog.text
    lines = PANEL.with_suffix(".afreq").read_text().splitlines()
    rows = [line.split("\t") for line in lines[1:]]
    for row in rows:
        row[4] = str(0.5 + 0.5 * (float(row[4]) - 0.5))  # much nearer to one half
    other = tmp_path / "other.afreq"
    other.write_text("\n".join([lines[0], *map("\t".join, rows)]) + "\n")
    with caplog.at_level(logging.WARNING, "primo_scale"):
        ps.forecast(attrs.evolve(request(variants, **sizes), ref_freq=other))
    assert "different populations: F_ST is 0.0" in caplog.text


@pytest.mark.slow
def test_a_public_score_adds_less_than_its_r2(variants):
    sizes = {"people": N, "phenotypes": 20, "epsilon": 5.0}
    (alone,) = ps.forecast(request(variants, **sizes))
    (both,) = ps.forecast(request(variants, **sizes, prior_r2=0.1, prior_people=N))
    assert max(0.1, alone.r2) < both.r2 < alone.r2 + 0.1


@pytest.mark.parametrize(
    "changes",
    [
        {"people": 0},
        {"variants": 0},
        {"target": "much"},
        {"target": 1.5},
        {"prior_r2": 0.3},
        {"extract_by_prior": __file__},
        {"phenotypes": ()},
        {"epsilon": -1.0},
    ],
)
def test_numbers_out_of_range_are_refused(variants, changes):
    with pytest.raises(UsageError):
        request(variants, **changes)


def test_a_panel_may_be_several_filesets(tmp_path):
    """As of --bfile: a pattern, a list or commas."""
    dosages = np.random.default_rng(2).integers(0, 3, (6, 61))
    lines = ["#CHROM\tID\tREF\tALT\tALT_FREQS\tOBS_CT\n"]
    for chromosome, part in zip("12", np.split(dosages, 2), strict=True):
        write_fileset_of(tmp_path / f"chr{chromosome}", part, range(1, 4), chromosome)
        lines += [f"{chromosome}\t{chromosome}:{k}\tG\tA\t0.4\t122\n" for k in range(1, 4)]
    frequencies = written(tmp_path / "panel.afreq", "".join(lines))
    words = ["--ref-freq", frequencies, "--people", 1000, "--phenotypes", 1, "--epsilon", 5]
    printed = {
        succeeded(command(main, "--ld-panel", panel, *words)).stdout
        for panel in (
            tmp_path / "chr{1..2}",
            f"{tmp_path / 'chr1'},{tmp_path / 'chr2'}",
            written(tmp_path / "all.list", f"{tmp_path}/chr1\n{tmp_path}/chr2\n"),
        )
    }
    (table,) = printed
    assert table.splitlines()[-1].split()[3] == "6"


@pytest.mark.slow
def test_no_release_of_a_search_is_forecast_twice_and_progress_is_logged(few, monkeypatch, caplog):
    """Rows of the same people and phenotypes search for the same epsilon, and so on."""
    computed = []
    row_of = forecast_module._row

    def counted(request, chosen, **sizes):
        computed.append(tuple(sizes.values()))
        return row_of(request, chosen, **sizes)

    monkeypatch.setattr(forecast_module, "_row", counted)
    asked = request(few, people=1000, phenotypes=(1, 10), epsilon=(1.0, 5.0), target="80%")
    with caplog.at_level(1, "primo_scale"):
        rows = ps.forecast(asked)
    assert len(computed) == len(set(computed))
    assert rows[0].target_epsilon == rows[1].target_epsilon != rows[2].target_epsilon
    assert "forecast: 4 of 4 releases, 100% of the work" in caplog.text
