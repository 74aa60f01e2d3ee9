"""Print docs/how-to/options.md, made of the fields of `primo_scale.ReleaseRequest`."""

from __future__ import annotations

import re

from primo_scale.errors import Field
from primo_scale.run.fields import FLAG, HEADINGS, NEEDED, declared
from primo_scale.run.options import ReleaseRequest

_TOP = """\
# The options of a release

<!-- generated: python website/options.py > docs/how-to/options.md -->

`primo-scale release --help` prints the same list. In Python, `primo_scale.release` takes the same
names as keywords, with `_` for `-` (`unit` for `--privacy`, `chromosomes` for `--chr`), and the
fields of the last section, which have no option. After an interruption, the same command continues
and pays nothing again ([operating](../operating.md)).
"""
_EXPERT = "In Python alone"


def page() -> str:
    """Return the page."""
    lines: dict[str, list[str]] = {heading: [] for heading in (*HEADINGS, _EXPERT)}
    known = declared(ReleaseRequest)

    def named(found: re.Match[str]) -> str:
        return found[0] if known[found[1]][0].expert else f"`{Field(found[1]).option}`"

    for name, (field, default) in known.items():
        value = "" if field.kind is FLAG else field.metavar
        if field.expert:
            shown, heading = f"{name}={value}" if value else name, _EXPERT
        else:
            shown, heading = f"{Field(name).option} {value}".strip(), field.heading
        facts = [field.kind.interval] if field.kind.interval not in ("", "[1, inf)") else []
        facts += ["required"] if default is NEEDED else []
        facts += [f"default {default}"] if isinstance(default, str) else []
        facts = [fact for fact in facts if fact != "(-inf, inf)"]
        end = f" *{'; '.join(facts)}*" if facts else ""
        text = re.sub(r"`(\w+)`", named, field.help)
        text = re.sub(r"docs/([\w/-]+\.md)", r"[\1](../\1)", text)
        lines[heading].append(f"* `{shown}`: {text}{end}")
    sections = (f"## {heading}\n\n" + "\n".join(items) for heading, items in lines.items())
    return "\n".join([_TOP, "\n\n".join(sections), ""])


if __name__ == "__main__":
    print(page(), end="")
