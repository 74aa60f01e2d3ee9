"""Changes of example releases that can make every digest and the signature fit again."""

import gzip
import hashlib
import html
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from primo_scale.verify.document import kind_of, serialise, statement_digest
from primo_scale.verify.files import Signer, signature_of
from primo_scale.verify.finding import Finding
from primo_scale.verify.party import columns_table
from primo_scale.verify.release import document_findings, release_findings
from support.documents import read_document
from support.release_examples import SIGNER


def forge(directory: Path, document: dict[str, Any], signer: Signer | None = SIGNER) -> None:
    """Replace the document, with the right digests and signature, like a lying custodian."""
    for entry in document["files"]:
        content = (directory / entry["name"]).read_bytes()
        entry["sha256"] = hashlib.sha256(content).hexdigest()
        entry["bytes"] = len(content)
    if document["private"]:
        document["signature"] = signature_of(document, signer)
    (directory / kind_of(directory).name).write_bytes(serialise(document))


def restate(directory: Path, document: dict[str, Any], signer: Signer | None = SIGNER) -> None:
    """Do as `forge`, with texts that belong to the new document."""
    if (directory / "report.html").exists():
        stamp = html.escape(str(document["stamp"]))
        (directory / "README.txt").write_text(f"{document['stamp']}\n")
        (directory / "report.html").write_text(f"{stamp}\n{statement_digest(document)}\n")
    else:
        (directory / "columns.tsv").write_text(columns_table(document))
    forge(directory, document, signer)


def resize(document: dict[str, Any], sizes: list[int]) -> None:
    """State LD blocks of other sizes, and the shapes of the statistics that follow."""
    before, after = document["cohort"]["n_variants"], sum(sizes)
    document["cohort"] |= {"n_variants": after, "block_sizes": sizes}
    for each in document["mechanism"]["queries"]:
        each["shape"] = [after if length == before else length for length in each["shape"]]


def query(document: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [each for each in document["mechanism"]["queries"] if each["name"] == name]
    return found


def rewrite(
    directory: Path, name: str, change: Callable[[str], str], signer: Signer = SIGNER
) -> None:
    """Change the text of one file, packed or not, and sign the release again."""
    path = directory / name
    packed = name.endswith(".gz")
    old = (gzip.decompress(path.read_bytes()) if packed else path.read_bytes()).decode()
    new = change(old)
    assert new != old
    path.write_bytes(gzip.compress(new.encode(), mtime=0) if packed else new.encode())
    forge(directory, read_document(directory), signer)


def cell(row: int, column: int, text: str) -> Callable[[str], str]:
    def change(table: str) -> str:
        lines = table.split("\n")
        fields = lines[row].split("\t")
        fields[column] = text
        lines[row] = "\t".join(fields)
        return "\n".join(lines)

    return change


def problems(directory: Path, public_key: str | None = None) -> list[str]:
    return problems_in(release_findings(directory, public_key=public_key))


def problems_in(findings: Iterable[Finding]) -> list[str]:
    return [f"{finding.check}: {finding.detail}" for finding in findings if not finding.ok]


def failed(document: dict[str, Any]) -> list[str]:
    return [finding.check for finding in document_findings(document) if not finding.ok]
