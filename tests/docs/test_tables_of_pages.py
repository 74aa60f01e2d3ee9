"""Tables of pages, against the program: messages exist, and example tables are read."""

import ast
import re

from support.documented_code import ROOT, blocks

from primo_scale.outcomes import coding, tables

_MESSAGE = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)


def texts_of_the_program():
    """Return every text of the program, in which parts that a run fills in are left out."""
    return "\n".join(
        node.value
        for path in (ROOT / "primo_scale").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def test_the_program_has_every_message_of_the_troubleshooting_page():
    messages = _MESSAGE.findall((ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8"))
    texts = texts_of_the_program()
    assert len(messages) >= 20
    assert [m for m in messages if not all(part in texts for part in m.split("..."))] == []


def test_the_example_tables_are_read(tmp_path):
    files = []
    for number, (_, text) in enumerate(blocks("docs/tables.md", "text")):
        files.append(tmp_path / f"{number}.tsv")
        files[-1].write_text(text)
    pheno, covar, pheno_bounds, covar_bounds = files
    names = tables.open_outcome_table(pheno).names
    bounds = coding.read_phenotype_bounds(pheno_bounds, names)
    assert [each.kind for each in bounds] == ["quantitative", "binary"]
    names = tables.open_outcome_table(covar).names
    assert len(coding.read_covariate_bounds(covar_bounds, names)) == len(names)
