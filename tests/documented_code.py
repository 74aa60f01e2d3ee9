"""Code blocks of the documentation, which tests run."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: str, *languages: str) -> list[tuple[str, str]]:
    """Return language and text of the blocks of a page in some languages, in their order."""
    found = _BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    return [block for block in found if block[0] in languages]
