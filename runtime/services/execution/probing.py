"""A look at a target that changes nothing there: is it known, allowed, signed for and reachable."""

from dataclasses import dataclass

from django.conf import settings

from runtime.adapters import probe
from runtime.models import Target


@dataclass(frozen=True, kw_only=True)
class TargetCheck:
    """What was found, as sentences; `is_good` where a call could be made."""

    name: str
    is_good: bool
    findings: tuple[str, ...]


def check_target(*, tenant: str, name: str) -> TargetCheck | None:
    """Look at one target by connecting to it and sending nothing; None where there is no such target."""
    row = Target.objects.of(tenant).filter(name=name).first()
    if row is None:
        return None
    base_url = settings.DIR_TARGET_URLS.get(name, row.base_url)
    reached = probe.reach(base_url)
    signed = probe.signing_secret(row.secret_env)
    return TargetCheck(
        name=name,
        is_good=reached.is_good and signed.is_good,
        findings=(f"{base_url}: {reached.words}", signed.words),
    )


def list_targets(*, tenant: str) -> list[str]:
    """The names of all targets."""
    return list(Target.objects.of(tenant).order_by("name").values_list("name", flat=True))
