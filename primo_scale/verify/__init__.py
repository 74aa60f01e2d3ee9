"""Check of a release from its files alone: ``primo_scale.verify(directory, public_key=HEX)``.

The folder stands alone, for an auditor to read (docs/verifying.md): `document` has the types that
are the schema of release.json, `files` checks digests and the signature, `guarantee` recomputes the
promise by `theorems`, `held_out_accuracy` and `tables` compare the other numbers, `ledger` reads
the custodian's ledger, and `release` asks them all. It imports nothing of the code that makes a
release. The package can be called: it is the function `primo_scale.verify.release.verify`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Package(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name not in ("Verification", "verify"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        from primo_scale.verify import release  # loads SciPy

        return getattr(release, name)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self.verify(*arguments, **options)


sys.modules[__name__].__class__ = _Package
