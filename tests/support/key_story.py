"""Keys of payloads as tests need them, and payloads that no entry names."""

from datetime import timedelta

from django.db import transaction

from audit import ledger
from audit.chain import BreakKind
from audit.models import ClassKey
from audit.verification import findings
from runtime.core import clock
from runtime.maintenance.services import payload_destruction, payload_rotation

WORDS = b'"only for the eyes of some"'


def commit(data_class: str = "people", count: int = 1) -> list[str]:
    """Payloads of a class, in a transaction of their own; their commitments."""
    with transaction.atomic():
        return ledger.commit_payloads(tenant="default", data_class=data_class, bodies=[WORDS] * count)


def retired(data_class: str, *, ago: timedelta = payload_destruction.GRACE) -> ClassKey:
    """The key in use is retired, so long ago, and what is under it stays there."""
    begun = payload_rotation.begin(tenant="default", data_class=data_class, actor="system")
    assert isinstance(begun, payload_rotation.Rotated)
    ClassKey.objects.filter(pk=begun.retired).update(retired_at=clock.now() - ago)
    return ClassKey.objects.get(pk=begun.retired)


def list_faults() -> list[str]:
    """What `verify_ledger` finds, but that no entry names what `commit` has stored."""
    found = findings.verify_all().findings
    return [item.detail for item in found if item.fault is not BreakKind.ROW_WITHOUT_ENTRY]
