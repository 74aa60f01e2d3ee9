"""The page of options is the one that the fields of the request make."""

import runpy

from support.documented_code import ROOT


def test_the_page_of_options_is_made_from_the_fields():
    page = runpy.run_path(str(ROOT / "website/options.py"))["page"]()
    assert (ROOT / "docs/how-to/options.md").read_text() == page, "make it again (see its top)"
