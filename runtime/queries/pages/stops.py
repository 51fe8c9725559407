"""What is stopped now."""

from runtime.models import Stop


def get_stop(*, tenant: str) -> Stop | None:
    """The stop in force for the tenant, or None."""
    return Stop.objects.of(tenant).filter(lifted_at__isnull=True).first()
