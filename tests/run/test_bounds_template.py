"""A plan without bounds prints the table of bounds to fill in."""

from support.small_cohort import command, refused, succeeded

from primo_scale.cli.commands import plan

BUDGET = ("--epsilon", 1, "--delta", 1e-6)


def test_a_plan_without_bounds_prints_the_table_to_fill_in(cohort):
    inputs = ("--bfile", cohort.folder / "cohort", "--pheno", cohort.folder / "pheno.tsv")
    header = (cohort.folder / "pheno.tsv").read_text().splitlines()[0].split("\t")
    done = succeeded(command(plan, *inputs, *BUDGET, "--out", cohort.out))
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert rows[0] == ["name", "lower", "upper", "mean", "sd"]
    assert [row[0] for row in rows[1:]] == header[2:]
    assert "give the table as --pheno-bounds" in done.stderr
    bounds = cohort.folder / "template.tsv"
    bounds.write_text(done.stdout)
    refused(
        command(plan, *inputs, *BUDGET, "--out", cohort.out, "--pheno-bounds", bounds),
        3, "template.tsv",
    )  # fmt: skip
    some = succeeded(command(plan, *inputs, "--pheno-name", header[2], "--out", cohort.out))
    assert [line.split("\t")[0] for line in some.stdout.splitlines()[1:]] == [header[2]]
