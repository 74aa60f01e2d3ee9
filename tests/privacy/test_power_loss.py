"""What survives a loss of power at each step: noise is reproducible, or not yet paid for."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from support.durable import Disk, disk_seen
from support.tiny_release import noise_store, pay

from primo_scale.ledger.ledger import AUDIT_EVENT, PaymentStep


@contextmanager
def steps_seen(on_step: Callable[[PaymentStep], object]) -> Iterator[None]:
    audit = sys.audit

    def seen(event: str, *arguments: object) -> None:
        audit(event, *arguments)
        if event == AUDIT_EVENT:
            on_step(PaymentStep(arguments[0]))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "audit", seen)
        yield


def checked_steps(release, expected: Callable[[PaymentStep, Disk], object]) -> list:
    """Run a release; return the steps at which something was checked."""
    passed = []
    with disk_seen() as disk:

        def on_step(step: PaymentStep) -> None:
            if expected(step, disk) is not None:
                passed.append(step)

        with steps_seen(on_step):
            release()
    return passed


def key_is_safe(directory, step: PaymentStep, disk: Disk) -> bool | None:
    """A key is durable before its charge, and gone, durably, once it has served."""
    if step is PaymentStep.KEY_STORED:
        (key,) = directory.glob("*.unused")
        assert disk.keeps(key)
    elif step is PaymentStep.DRAW_STARTED:
        (key,) = directory.glob("*.key")
        assert disk.keeps(key)
        assert disk.names_in(directory) == [key.name], "the key would count as unused again"
    elif step is PaymentStep.KEY_REMOVED:
        assert not list(directory.glob("*.key"))
        assert not [name for name in disk.names_in(directory) if name.endswith((".key", ".unused"))]
    else:
        return None
    return True


def test_noise_survives_before_its_key_is_removed(tmp_path, raw):
    store, stored = noise_store(tmp_path), PaymentStep.STATISTICS_STORED

    def expected(step: PaymentStep, disk: Disk) -> bool | None:
        if step is PaymentStep.ADJUSTMENT_STORED:
            assert disk.keeps(store.adjustment_path)
            return True
        if step is stored:
            files = [path for path in store.directory.glob("*.zarr/**/*") if path.is_file()]
            assert len(files) >= 5
            assert [path for path in files if not disk.keeps(path)] == []
            return True
        return key_is_safe(store.directory, step, disk)

    draw = PaymentStep.DRAW_STARTED  # of the adjustment, and of the statistics
    steps = [PaymentStep.KEY_STORED, draw, PaymentStep.ADJUSTMENT_STORED, draw, stored,
             PaymentStep.KEY_REMOVED]  # fmt: skip
    assert checked_steps(lambda: pay(tmp_path, raw), expected) == steps
