"""What survives a loss of power at each step: noise is reproducible, or not yet paid for."""

import sys

from support.durable import disk_seen
from support.tiny_release import noise_store, pay

from primo_scale.ledger.ledger import AUDIT_EVENT, PaymentStep


def test_noise_survives_before_its_key_is_removed(tmp_path, raw, monkeypatch):
    """A key is durable before its charge, and gone, durably, once it has served."""
    store, audit, checked = noise_store(tmp_path), sys.audit, []

    def check(step: PaymentStep) -> None:
        if step is PaymentStep.KEY_STORED:
            (key,) = store.directory.glob("*.unused")
            assert disk.keeps(key)
        elif step is PaymentStep.DRAW_STARTED:
            (key,) = store.directory.glob("*.key")
            assert disk.keeps(key)
            assert disk.names_in(store.directory) == [key.name], "the key would count as unused"
        elif step is PaymentStep.ADJUSTMENT_STORED:
            assert disk.keeps(store.adjustment_path)
        elif step is PaymentStep.STATISTICS_STORED:
            files = [path for path in store.directory.glob("*.zarr/**/*") if path.is_file()]
            assert len(files) >= 5
            assert [path for path in files if not disk.keeps(path)] == []
        elif step is PaymentStep.KEY_REMOVED:
            assert not list(store.directory.glob("*.key"))
            left = disk.names_in(store.directory)
            assert not [name for name in left if name.endswith((".key", ".unused"))]
        else:
            return
        checked.append(step)

    def seen(event: str, *arguments: object) -> None:
        audit(event, *arguments)
        if event == AUDIT_EVENT:
            check(PaymentStep(arguments[0]))

    with disk_seen() as disk:
        monkeypatch.setattr(sys, "audit", seen)
        pay(tmp_path, raw)
    draw = PaymentStep.DRAW_STARTED  # of the adjustment, and of the statistics
    assert checked == [PaymentStep.KEY_STORED, draw, PaymentStep.ADJUSTMENT_STORED, draw,
                       PaymentStep.STATISTICS_STORED, PaymentStep.KEY_REMOVED]  # fmt: skip
