"""Keys of payloads as tests need them."""

from datetime import timedelta

from audit.models import ClassKey
from runtime.core import clock
from runtime.maintenance.services import payload_destruction, payload_rotation


def retired(data_class: str, *, ago: timedelta = payload_destruction.GRACE) -> ClassKey:
    """The key in use is retired, so long ago, and what is under it stays there."""
    begun = payload_rotation.begin(tenant="default", data_class=data_class, actor="system")
    assert isinstance(begun, payload_rotation.Rotated)
    ClassKey.objects.filter(pk=begun.retired).update(retired_at=clock.now() - ago)
    return ClassKey.objects.get(pk=begun.retired)
