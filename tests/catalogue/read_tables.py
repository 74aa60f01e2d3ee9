"""Read every table of a release as docs/received-a-release.md says, and write it as CSV.

python read_tables.py pandas|polars RELEASE OUT
"""

import importlib
import sys
from pathlib import Path

library, release, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
module = importlib.import_module(library)
words = {
    "pandas": {"separator": "sep", "skip": "skiprows", "comment": "comment"},
    "polars": {"separator": "separator", "skip": "skip_rows", "comment": "comment_prefix"},
}[library]
for pattern, options in {
    "weights.tsv.gz": {},
    "covariates.tsv": {"skip": 1},
    "centre.afreq": {"skip": 1},
    "pgs/*": {"comment": "#"},
    "sumstats/*": {},
}.items():
    for path in release.glob(pattern):
        named = {words[key]: value for key, value in {"separator": "\t", **options}.items()}
        table = module.read_csv(path, **named)
        target = out / f"{path.parent.name}-{path.name}.csv"
        if library == "pandas":
            table.to_csv(target, index=False)
        else:
            table.write_csv(target)
