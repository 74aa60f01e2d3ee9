"""The page of measurements is the one that its template and its tables make."""

from support.documented_code import ROOT

from benchmarks.tables import TABLES, page_text

PAGE = (ROOT / "docs/benchmarks.md").read_text()


def test_the_page_is_generated():
    assert page_text({}, PAGE) == PAGE, "make it again (see its first line)"


def test_every_benchmark_has_its_tables():
    for name in TABLES:
        after = PAGE.partition(f"<!-- {name}: measured -->")[2]
        tables = after.partition(f"<!-- {name}: end -->")[0]
        assert " CPUs, " in tables and "| ---: |" in tables, name
