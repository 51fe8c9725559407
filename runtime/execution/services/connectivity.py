"""A connectivity check of a target: is it known, allowed, signed for and reachable."""

from dataclasses import dataclass

from audit import actors, events, ledger
from runtime.core import clock, transactions
from runtime.execution.adapters import reachability
from runtime.registry.models import Target
from runtime.registry.queries import target_endpoints


@dataclass(frozen=True, kw_only=True)
class TargetCheck:
    """What was found, as sentences; `is_good` where a call could be made."""

    name: str
    is_good: bool
    findings: tuple[str, ...]


def check_target(*, tenant: str, name: str, actor: str) -> TargetCheck | None:
    """Look at one target by connecting to it and sending nothing; None where there is no such target.

    The ledger records the check and its result. Blocks for as long as a connection takes.
    """
    place = target_endpoints.get_place(tenant=tenant, name=name)
    if place is None:
        return None
    reached = reachability.reach(place.base_url)
    signed = reachability.signing_secret(place.secret_env)
    found = TargetCheck(
        name=name,
        is_good=reached.is_good and signed.is_good,
        findings=(f"{place.base_url}: {reached.words}", signed.words),
    )
    checked = events.TargetChecked(target=name, is_good=found.is_good)
    # After the look: no network inside a transaction.
    transactions.retry_on_conflict(
        lambda: ledger.append_to(
            tenant=tenant, stream=actors.target(name), actor=actor, at=clock.now(), events=[checked]
        )
    )
    return found


def list_targets(*, tenant: str) -> list[str]:
    """The names of all targets."""
    return list(Target.objects.of(tenant).order_by("name").values_list("name", flat=True))
