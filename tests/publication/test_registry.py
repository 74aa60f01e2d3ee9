"""deployment.yaml passes the registry's own schema, of commit 3e9c812a of its repository."""

import shutil
from pathlib import Path

import jsonschema
import pytest
import yaml
from msgspec import structs
from support.release_examples import MODES, example_statement, example_weights, publish

from primo_scale.errors import InputError
from primo_scale.run.public_inputs import read_deployment
from primo_scale.verify.document import Deployment
from primo_scale.verify.release import release_findings

SCHEMA = yaml.safe_load(
    Path(__file__).with_name("registry").joinpath("deployments-schema.yaml").read_text()
)
WORDS = Deployment("A biobank", "Scores: for research", "Utopia", "A GWAS of height, 2020")


@pytest.mark.parametrize("mode", MODES)
def test_the_record_passes_the_schema_of_the_registry(mode, tmp_path):
    statement = structs.replace(example_statement(example_weights(), mode=mode), deployment=WORDS)
    directory = publish(tmp_path / "out", example_weights(), statement)
    text = (directory / "deployment.yaml").read_text()
    record = yaml.safe_load(text)
    jsonschema.validate(record, SCHEMA, format_checker=jsonschema.FormatChecker())
    assert record["deployment"]["privacy_loss"]["privacy_parameters"]["epsilon"] == 5
    assert (
        WORDS.other_releases in text
        and WORDS.purpose in record["deployment"]["basic"]["intended_use"]
    )
    report = (directory / "report.html").read_text()
    assert report.count("(custodian&#39;s word)") + report.count("(custodian's word)") == 4
    assert all(finding.ok for finding in release_findings(directory))
    shutil.move(directory / "deployment.yaml", tmp_path)
    assert not all(finding.ok for finding in release_findings(directory))


@pytest.mark.parametrize(
    "text",
    [
        "", "- a\n", "curator: A\n", "a: {",
        "curator: [A]\npurpose: b\nregion: c\nother_releases: d\n",
        'curator: "two\\nlines"\npurpose: b\nregion: c\nother_releases: d\n',
    ],
)  # fmt: skip
def test_other_descriptions_are_refused(text, tmp_path):
    (tmp_path / "words.yaml").write_text(text)
    with pytest.raises(InputError, match=r"words\.yaml: is no description of a deployment"):
        read_deployment(tmp_path / "words.yaml")
    with pytest.raises(InputError):
        read_deployment(tmp_path / "missing.yaml")


def test_a_description_is_read(tmp_path):
    (tmp_path / "words.yaml").write_text(yaml.safe_dump(structs.asdict(WORDS)))
    assert read_deployment(tmp_path / "words.yaml") == WORDS
