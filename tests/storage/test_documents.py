"""Conversion of documents in several threads."""

import subprocess
import sys

SCRIPT = """
import dataclasses, sys, threading
from primo_scale.storage.files import converted

sys.setswitchinterval(1e-6)
for number in range(300):
    inner = dataclasses.make_dataclass(f"Inner{number}", [("sizes", tuple[int, ...])])
    members = [("inner", inner), ("names", dict[str, str]), ("limit", int | None)]
    outer = dataclasses.make_dataclass(f"Outer{number}", members)
    document = {"inner": {"sizes": [1, 2]}, "names": {"a": "b"}, "limit": None}
    begin, found = threading.Barrier(2), []

    def convert():
        begin.wait()
        found.append(converted(document, outer))

    threads = [threading.Thread(target=convert) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == 2 * [outer(inner((1, 2)), {"a": "b"}, None)]
"""


def test_two_threads_can_convert_values_of_a_new_type() -> None:
    """By `msgspec.convert` alone, 0.22, the process ends with a segmentation fault."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, (done.returncode, done.stderr)
