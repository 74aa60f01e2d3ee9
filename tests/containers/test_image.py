"""buildah builds the image of cluster/Containerfile on Debian's packages, which makes a release."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.command_io import PANEL, table_options
from support.tiers import ROOT, missing

CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
SEPARATE = ["--isolation", "chroot"]  # which needs no container engine

Buildah = Callable[..., str]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buildah]:
    """Run buildah with storage of its own, which is removed at the end."""
    for program in ("buildah", "mmdebstrap"):
        if shutil.which(program) is None:
            missing(program)
    if os.geteuid():
        missing("root, who builds images,")
    storage = tmp_path_factory.mktemp("images")

    def run(*arguments: object) -> str:
        places = ["--root", storage / "root", "--runroot", storage / "run"]
        command = ["buildah", *places, *arguments]
        done = subprocess.run(
            list(map(str, command)), cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    yield run
    run("rm", "--all")
    shutil.rmtree(storage)


@pytest.fixture(scope="module")
def base(buildah: Buildah, tmp_path_factory: pytest.TempPathFactory) -> str:
    archive = tmp_path_factory.mktemp("base") / "base.tar"
    configuration = f'printf "[global]\\ncert = {CERTIFICATES}\\n" > "$1/etc/pip.conf"'
    subprocess.run(
        [
            "mmdebstrap", "--variant=apt", "--include=ca-certificates,python3-venv",
            f"--customize-hook=copy-in {CERTIFICATES} {Path(CERTIFICATES).parent}",
            f"--customize-hook={configuration}", "bookworm", archive,
        ],
        check=True, capture_output=True,
    )  # fmt: skip
    container = buildah("from", "scratch")
    buildah("add", container, archive, "/")
    buildah("commit", "--quiet", container, "localhost/python")
    archive.unlink()
    return "localhost/python"


def test_a_container_makes_a_release_as_its_own_user(buildah: Buildah, base: str) -> None:
    buildah(
        "build", *SEPARATE, "--network", "host", "--build-arg", f"BASE={base}",
        "--file", "cluster/Containerfile", "--tag", "localhost/primo-scale", ".",
    )  # fmt: skip
    container = buildah("from", "localhost/primo-scale")
    panel = f"/panel/{PANEL.name}"

    def command(*words: object) -> str:
        volume = ["--volume", f"{PANEL.parent}:/panel:ro"]
        return buildah("run", *SEPARATE, *volume, container, "--", *words)

    assert command("id", "-u") == "1000"
    command(
        "primo-scale", "simulate", "--bfile", panel, "--out", "train", "--samples", 2000,
        "--seed", 1, "--variants", 300, "--phenotypes", 1,
    )  # fmt: skip
    command(
        "primo-scale", "release", "--bfile", "train", *table_options("train"), "--ref-freq",
        f"{panel}.afreq", "--ld-panel", panel, "--epsilon", 5, "--delta", 1e-7, "--out", "release",
    )  # fmt: skip
    assert "\nverified: " in command("primo-scale", "verify", "release")
    assert "Client Version" in command("kubectl", "version", "--client")
