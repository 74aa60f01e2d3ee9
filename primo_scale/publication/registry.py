"""What the custodian says of a deployment, in the file of `--deployment`."""

from __future__ import annotations

from pathlib import Path

import msgspec
import yaml

from primo_scale.errors import InputError
from primo_scale.storage import files
from primo_scale.verify.document import Deployment

_WORDS = "curator, purpose, region and other_releases"


def read_deployment(path: Path) -> Deployment:
    """Return the custodian's words from a YAML file.

    Raises
    ------
    InputError
        If the file is not a mapping with exactly these texts of one line each.
    """
    try:
        return files.converted(yaml.safe_load(path.read_text(encoding="utf-8")), Deployment)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, msgspec.ValidationError) as error:
        raise InputError(
            f"is no description of a deployment: {' '.join(str(error).split())}",
            where=path,
            remedy=f"Give a YAML file with {_WORDS}, a text of one line each",
        ) from error
