"""Pages and tables that the program makes: options, messages, measurements and examples."""

import ast
import re
import runpy

from support.documented_code import ROOT, blocks

from benchmarks.tables import TABLES, page_text
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


def test_the_page_of_options_is_made_from_the_fields():
    page = runpy.run_path(str(ROOT / "website/options.py"))["page"]()
    assert (ROOT / "docs/how-to/options.md").read_text() == page, "make it again (see its top)"


PAGE = (ROOT / "docs/benchmarks.md").read_text()


def test_the_page_is_generated():
    assert page_text({}, PAGE) == PAGE, "make it again (see its first line)"


def test_every_benchmark_has_its_tables():
    for name in TABLES:
        after = PAGE.partition(f"<!-- {name}: measured -->")[2]
        tables = after.partition(f"<!-- {name}: end -->")[0]
        assert " CPUs, " in tables and "| ---: |" in tables, name
