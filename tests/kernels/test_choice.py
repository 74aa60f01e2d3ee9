"""Choice and refusal of kernels; sums do not depend on the choice."""

import hashlib
import os
import sys

import numpy as np
import pytest
from support.integer_products import product
from support.processes import run
from support.tiers import thinned

from primo_scale.errors import UsageError
from primo_scale.kernels import AUTOMATIC, product_kernels
from primo_scale.kernels.product_kernels import choose_kernel, warmed_up
from primo_scale.kernels.products import LARGEST_BYTE

# Prints what is chosen for small and for large codes, and a digest of products by both.
PROGRAM = """
import hashlib
import numpy as np
from primo_scale.kernels.product_kernels import choose_kernel, warmed_up
from primo_scale.kernels.products import ProductSum, mirrored
digest, names = hashlib.sha256(), []
warmed_up("auto", 1)
for largest in (1, 127):
    codes = np.random.default_rng(largest).integers(-largest, largest + 1, (50, 3001))
    kernel = choose_kernel("auto", largest)
    total = ProductSum(kernel, (50, 50), largest**2)
    codes = codes.astype(np.int8)
    total.add(codes, codes)
    names.append(kernel.name)
    digest.update(mirrored(total.total()).astype("<i8").tobytes())
print(*names, digest.hexdigest())
"""


def printed(program: str, *words: str, **environment: str) -> str:
    done = run([sys.executable, "-c", program, *words], {**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def features(monkeypatch: pytest.MonkeyPatch):
    def pretend(names: frozenset[str]) -> None:
        monkeypatch.setattr(product_kernels, "host_features", lambda: names)
        granted = names >= product_kernels.AMX_FEATURES
        monkeypatch.setattr(product_kernels, "_request_tiles", lambda: granted)
        product_kernels._fastest.cache_clear()

    yield pretend
    product_kernels._fastest.cache_clear()


@pytest.mark.parametrize(
    ("processor", "name"),
    [
        (product_kernels.VNNI_FEATURES | product_kernels.AMX_FEATURES, "amx"),
        (product_kernels.VNNI_FEATURES, "vnni"),
        (product_kernels.VNNI_FEATURES | {"avx512vbmi", "avx512vpopcntdq"}, "vnni"),
        (frozenset({"avx2", "fma"}), "avx2"),
        (frozenset(), "float32"),
    ],
    ids=["AMX", "VNNI", "VNNI and more", "AVX2", "nothing"],
)
@pytest.mark.parametrize("largest_code", [1, LARGEST_BYTE])
def test_codes_do_not_change_the_kernel_chosen_for_a_processor(
    features, processor, name: str, largest_code: int
) -> None:
    features(processor)
    assert choose_kernel(AUTOMATIC, largest_code).name == name


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("amx", "a processor with AMX, and an operating system that permits it"),
        ("vnni", "a processor with AVX-512 VNNI"),
        ("avx2", "a processor with AVX2"),
    ],
)
def test_a_refusal_states_what_is_missing_and_the_remedy(features, name: str, needs: str) -> None:
    features(frozenset())
    with pytest.raises(UsageError, match=f"kernel: .*{needs}.*got {name}.*Leave the option out"):
        choose_kernel(name, 1)
    with pytest.raises(UsageError):
        warmed_up(name, 1)


@pytest.mark.parametrize("answer", [0, -1])
def test_amx_tiles_are_used_if_the_system_permits_them(monkeypatch, answer: int) -> None:
    """Numbers of arch_prctl, ARCH_REQ_XCOMP_PERM and component 18; Linux before 5.16 returns -1."""

    class System:
        def syscall(self, *words: int) -> int:
            return answer if words == (158, 0x1023, 18) else -1

    monkeypatch.setattr(product_kernels.sys, "platform", "linux")
    monkeypatch.setattr(product_kernels, "host_features", lambda: product_kernels.AMX_FEATURES)
    monkeypatch.setattr(product_kernels.ctypes, "CDLL", lambda _: System())
    assert product_kernels._request_tiles() == (answer == 0)
    monkeypatch.setattr(product_kernels.sys, "platform", "darwin")
    assert not product_kernels._request_tiles()


@pytest.mark.slow
@pytest.mark.parametrize(
    "setting",
    thinned([{"NUMBA_CPU_NAME": "generic"}, {"NUMBA_DISABLE_JIT": "1"}], every=3),
    ids=lambda setting: next(iter(setting)),
)  # fmt: skip
def test_a_process_without_the_instructions_gives_the_same_products(setting) -> None:
    """The expected digest comes from int64 products."""
    small, large, digest = printed(PROGRAM, **setting).split()
    assert {small, large} == {"float32"}
    expected = hashlib.sha256()
    for largest in (1, 127):
        codes = np.random.default_rng(largest).integers(-largest, largest + 1, (50, 3001))
        expected.update(product(codes, codes).astype("<i8").tobytes())
    assert digest == expected.hexdigest()
