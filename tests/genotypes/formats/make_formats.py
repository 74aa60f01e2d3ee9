"""Write the fixtures of this folder with plink2 v2.00a3.5, bcftools and bio2zarr 0.2.1.

``reference`` holds the genotypes of ``tests/reference/data/edge/plink_made``, ``probabilities``
every pair of 8-bit probabilities and 16-bit ones near the thresholds, the others those of the VCF
files here.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
import tempfile
import zlib
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
MADE = HERE.parents[1] / "reference/data/edge/plink_made"
REFERENCE = ("base_n43_m61", "degenerate", "sexchr_PAR_codes")


def plink2(*words: object) -> None:
    command = ["plink2", "--threads", "1", *map(str, words)]
    subprocess.run(command, check=True, capture_output=True)


def write_vcf(vcf: Path) -> Path:
    import pysam

    compressed = HERE / f"{vcf.name}.gz"
    pysam.tabix_compress(str(vcf), str(compressed), force=True)
    pysam.tabix_index(str(compressed), preset="vcf", force=True, csi=True)
    return compressed


def write_bcf(vcf: Path) -> None:
    path = vcf.with_suffix(".bcf")
    subprocess.run(["bcftools", "view", "-Ob", "-o", path, vcf], check=True)
    subprocess.run(["bcftools", "index", "-f", path], check=True)


def write_vcz(vcf: Path, name: str) -> None:
    """Convert a compressed VCF with bio2zarr, and keep the store as a zip file."""
    from bio2zarr import vcf as converter

    store = HERE / f"{name}.vcz"
    converter.convert([vcf], store, variants_chunk_size=20, samples_chunk_size=16)
    shutil.make_archive(str(HERE / name), "zip", store)
    (HERE / f"{name}.zip").rename(HERE / f"{name}.vcz.zip")
    shutil.rmtree(store)


def bgen_variant(
    name: str, pairs: np.ndarray, *, phased: bool, ploidy: tuple[int, ...] = (2,)
) -> bytes:
    """Return a variant of compressed probabilities; ploidies repeat, 0x80 higher where missing."""
    n, bits = len(pairs), 8 * pairs.itemsize
    each = np.resize(np.array(ploidy, dtype=np.uint8), n)
    copies = each & 63
    data = struct.pack("<IHBB", n, 2, copies.min(), copies.max()) + each.tobytes()
    values = (np.where(each[:, None] < 0x80, pairs, 0))[np.arange(2) < copies[:, None]]
    data += bytes([phased, bits]) + values.astype(pairs.dtype).tobytes()
    content = zlib.compress(data, 9)
    texts = [struct.pack("<H", len(text)) + text.encode() for text in ("", name, "1")]
    alleles = b"".join(struct.pack("<I", 1) + letter for letter in (b"A", b"G"))
    head = b"".join(texts) + struct.pack("<IH", 1000, 2) + alleles
    return head + struct.pack("<II", len(content) + 4, len(data)) + content


def near_thresholds() -> np.ndarray:
    """Return unphased 16-bit pairs of 256 people, whose copies are close to 0.1, 0.9, 1.1, 1.9."""
    most = 2**16 - 1
    sums = np.concatenate([np.arange(-32, 32) + round(c * most) for c in (0.1, 0.9, 1.1, 1.9)])
    both = np.maximum(0, sums - most)
    return np.stack([both, sums - 2 * both], axis=1).astype("<u2")


def write_probabilities(path: Path) -> None:
    """Write a BGEN file with every pair of 8-bit probabilities, and 16-bit ones near thresholds."""
    pairs = np.array([(a, b) for a in range(256) for b in range(256)], dtype=np.uint8)
    sums = pairs.astype(int).sum(axis=1) <= 255
    unphased = np.pad(pairs[sums], ((0, -int(sums.sum()) % 256), (0, 0))).reshape(-1, 256, 2)
    variants = [bgen_variant(f"u{i}", row, phased=False) for i, row in enumerate(unphased)]
    phased = pairs.reshape(-1, 256, 2)
    variants += [bgen_variant(f"p{i}", row, phased=True) for i, row in enumerate(phased)]
    variants.append(bgen_variant("near", near_thresholds(), phased=False))
    mixed = (2, 1, 0x82, 0x81, 1)
    variants.append(bgen_variant("mixed", unphased[40], phased=False, ploidy=mixed))
    variants.append(bgen_variant("phasedmixed", phased[250], phased=True, ploidy=mixed))
    names = b"".join(struct.pack("<H", 4) + f"p{i:03}".encode() for i in range(256))
    samples = struct.pack("<II", 8 + len(names), 256) + names
    header = struct.pack("<III", 20, len(variants), 256) + b"bgen" + struct.pack("<I", 9 | 1 << 31)
    start = struct.pack("<I", len(header) + len(samples))
    path.write_bytes(start + header + samples + b"".join(variants))


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        for name, bits in zip(REFERENCE, (8, 16, 11), strict=True):
            source = ("--bfile", MADE / name)
            plink2(*source, "--make-pgen", "vzs", "--out", HERE / name)
            version = "bgen-1.3" if bits == 16 else "bgen-1.2"
            plink2(*source, "--export", version, f"bits={bits}", "ref-first", "--out", HERE / name)
            plink2(*source, "--export", "vcf", "id-paste=iid", "--out", Path(scratch) / name)
            write_vcz(write_vcf(Path(scratch) / f"{name}.vcf"), name)
        odd = ("--vcf", HERE / "odd.vcf", "dosage=DS", "--vcf-half-call", "missing")
        plink2(*odd, "--make-pgen", "--out", HERE / "odd")
        plink2("--pfile", HERE / "odd", "--make-bed", "--out", HERE / "odd")
        plink2("--pfile", HERE / "odd", "--export", "bgen-1.2", "ref-first", "--out", HERE / "odd")
        several = ("--vcf", HERE / "several.vcf")
        plink2(*several, "--make-pgen", "--out", HERE / "several")
        imputed = ("--vcf", HERE / "imputed.vcf", "dosage=GP-force", "--make-pgen")
        plink2(*imputed, "--out", HERE / "imputed")
        for name in ("odd", "several", "imputed"):
            write_vcz(write_vcf(HERE / f"{name}.vcf"), name)
    write_vcf(HERE / "deletion.vcf")
    write_bcf(HERE / "odd.vcf")
    write_probabilities(HERE / "probabilities.bgen")
    plink2(
        "--bgen", HERE / "probabilities.bgen", "ref-first", "--make-bed",
        "--out", HERE / "probabilities",
    )  # fmt: skip
    for log in HERE.glob("*.log"):
        log.unlink()


if __name__ == "__main__":
    main()
