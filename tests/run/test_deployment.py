"""The words of a custodian: read before the payment, in the report and in deployment.yaml."""

from support.documents import read_document
from support.small_cohort import command, refused, succeeded

from primo_scale.cli.commands import verify

WORDS = "curator: A biobank\npurpose: Research\nregion: Utopia\nother_releases: none known\n"
BUDGET = ("--epsilon", 1, "--delta", 1e-6)


def test_a_release_states_the_words_of_its_custodian(cohort):
    words = cohort.folder / "deployment.yaml"
    words.write_text("curator: A biobank\n")
    refused(
        cohort.release("--deployment", words, budget=BUDGET), 3,
        "deployment.yaml: is no description of a deployment",
    )  # fmt: skip
    assert not cohort.ledger.exists()
    words.write_text(WORDS)
    refused(
        cohort.release("--non-private", "--deployment", words, budget=()), 2, "exclude each other"
    )
    succeeded(cohort.release("--deployment", words, budget=BUDGET))
    assert read_document(cohort.out)["deployment"]["region"] == "Utopia"
    assert "A biobank" in (cohort.out / "report.html").read_text()
    assert 'data_product_region: "Utopia"' in (cohort.out / "deployment.yaml").read_text()
    succeeded(command(verify, cohort.out))
    succeeded(cohort.release("--deployment", words, budget=BUDGET))  # found published
    words.write_text(WORDS.replace("Utopia", "Arcadia"))
    refused(cohort.release("--deployment", words, budget=BUDGET), 3, str(cohort.out))
