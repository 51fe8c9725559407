"""What admins do with notification routes: add, change, switch, test, delete; each an entry on `system`."""

from dataclasses import dataclass
from datetime import time
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from audit import actors, events, ledger
from escalations.contracts import Family, NoticeState, Occasion
from escalations.models import Notice, NotificationRoute
from escalations.services.notices import sealing
from runtime.contracts.incident import Severity
from runtime.contracts.problem import Problem, Violation
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import Impact
from runtime.core import clock, transactions
from runtime.core.ids import new_id
from runtime.execution.services import notice_delivery
from runtime.execution.services.notice_delivery import Address

LONGEST_NAME = 80
MOST_ROUTES = 50
# Without a choice of its own a route is told when an escalation opens, whatever its family; of nothing else.
DEFAULT_OCCASIONS = (Occasion.OPENED,)


@dataclass(frozen=True, kw_only=True)
class QuietChoice:
    """Quiet hours as an admin enters them.

    `exempt` and `exempt_severity` are the impact and the severity from which they do not apply.
    """

    start: time
    end: time
    zone: str
    exempt: Impact | None
    exempt_severity: Severity | None = None


@dataclass(frozen=True, kw_only=True)
class RouteRequest:
    """A route as an admin wants it. Empty `occasions` and `families` mean the defaults.

    `families`, `least_impact`, `agent_id` and `policy_kind` narrow escalations, `least_severity` incidents,
    `task_group` tasks. Without a `url`, a change keeps the address that the route has. `repr` leaves the URL
    out.
    """

    name: str
    url: str
    audience: str = ""
    occasions: tuple[Occasion, ...] = ()
    families: tuple[Family, ...] = ()
    least_impact: Impact = Impact.LOW_IMPACT
    agent_id: str = ""
    policy_kind: str = ""
    least_severity: Severity = Severity.SEV4
    task_group: str = ""
    quiet: QuietChoice | None = None

    def __repr__(self) -> str:
        return f"RouteRequest({self.name!r})"


@dataclass(frozen=True, kw_only=True, repr=False)
class SavedRoute:
    """The route and, for a webhook with a new address, its signing secret, which is given out this once."""

    route: NotificationRoute
    secret: str


def add(*, tenant: str, request: RouteRequest, actor: str) -> SavedRoute | Problem:
    """Add a route. 422 for a URL or a zone that cannot be used, 409 for a name that another route has."""
    address = notice_delivery.read_address(request.url)
    if isinstance(address, str):
        return _unfit("url", address)
    if request.quiet is not None and (wrong := _trouble(request.quiet)) is not None:
        return wrong

    def work() -> SavedRoute | Problem:
        others = NotificationRoute.objects.of(tenant).filter(deleted_at=None)
        if others.count() >= MOST_ROUTES:
            return Problem(
                code=ProblemCode.TOO_MANY_ROUTES,
                detail=f"There are {MOST_ROUTES} routes already. Delete one that is no longer used.",
            )
        at = clock.now()
        row = NotificationRoute(route_id=new_id(), tenant=tenant, enabled_at=at, created_at=at)
        secret = _give_address(row, request.url, address)
        return _save(row, request, secret=secret, actor=actor, entry=events.NotificationRouteAdded)

    return transactions.retry_on_conflict(work)


def change(*, tenant: str, route_id: UUID, request: RouteRequest, actor: str) -> SavedRoute | Problem:
    """Change a route; without a URL it keeps its address and its secret. Refusals as in `add`, and 404.

    What waits is sent by the new rules, or dropped where they no longer cover it. What had become due
    before the change is not announced later because of it.
    """
    address = notice_delivery.read_address(request.url) if request.url else None
    if isinstance(address, str):
        return _unfit("url", address)
    if request.quiet is not None and (wrong := _trouble(request.quiet)) is not None:
        return wrong

    def work() -> SavedRoute | Problem:
        row = _locked(tenant, route_id)
        if row is None:
            return _unknown()
        secret = "" if address is None else _give_address(row, request.url, address)
        row.enabled_at = clock.now()
        saved = _save(row, request, secret=secret, actor=actor, entry=events.NotificationRouteChanged)
        if isinstance(saved, SavedRoute):
            # Those that wait for the end of quiet hours: the sender asks the new ones.
            waiting = Notice.objects.filter(route=row, state=NoticeState.PENDING, tries=0)
            waiting.update(next_at=row.enabled_at)
        return saved

    return transactions.retry_on_conflict(work)


@transactions.retried
def switch(*, tenant: str, route_id: UUID, enabled: bool, actor: str) -> NotificationRoute | Problem:
    """Switch a route on or off; the same state again changes nothing. Off drops what was waiting."""
    row = _locked(tenant, route_id)
    if row is None:
        return _unknown()
    if row.enabled is enabled:
        return row
    at = clock.now()
    row.enabled = enabled
    if enabled:
        row.enabled_at = at
    row.save(update_fields=["enabled", "enabled_at"])
    _drop_waiting(row, "the route was switched off")
    switched = events.NotificationRouteSwitched(route_id=str(row.pk), name=row.name, enabled=enabled)
    _record(tenant, actor, row, switched)
    return row


@transactions.retried
def delete(*, tenant: str, route_id: UUID, actor: str) -> NotificationRoute | Problem:
    """Delete a route: its address is erased, and what was waiting for it is dropped."""
    row = _locked(tenant, route_id)
    if row is None:
        return _unknown()
    row.enabled, row.deleted_at, row.address = False, clock.now(), b""
    row.save(update_fields=["enabled", "deleted_at", "address"])
    _drop_waiting(row, "the route was deleted")
    _record(tenant, actor, row, events.NotificationRouteDeleted(route_id=str(row.pk), name=row.name))
    return row


@transactions.retried
def test(*, tenant: str, route_id: UUID, actor: str) -> NotificationRoute | Problem:
    """Queue a test notice, which ignores quiet hours; 409 for a route that is off."""
    row = _locked(tenant, route_id)
    if row is None:
        return _unknown()
    if not row.enabled:
        return Problem(code=ProblemCode.ROUTE_OFF, detail=f"{row.name} is switched off. Switch it on first.")
    at = clock.now()
    Notice.objects.create(route=row, escalation=None, occasion=Occasion.TEST, queued_at=at, next_at=at)
    _record(tenant, actor, row, events.NotificationRouteTested(route_id=str(row.pk), name=row.name))
    return row


def _give_address(row: NotificationRoute, url: str, address: Address) -> str:
    """Give a route another address; the new signing secret, empty where nothing is signed."""
    secret = notice_delivery.new_secret() if address.is_webhook else ""
    row.scheme, row.host = address.scheme, address.host
    row.address = sealing.seal(sealing.SealedAddress(url=url, secret=secret), route_id=row.pk)
    row.url_digest = sealing.digest(url)
    return secret


def _save(
    row: NotificationRoute,
    request: RouteRequest,
    *,
    secret: str,
    actor: str,
    entry: type[events.NotificationRouteAdded | events.NotificationRouteChanged],
) -> SavedRoute | Problem:
    """Store what was chosen, with its entry; 409 where another route has the name."""
    name = request.name or row.host or row.scheme
    others = NotificationRoute.objects.of(row.tenant).filter(deleted_at=None).exclude(pk=row.pk)
    if others.filter(name=name).exists():
        return _taken(name)
    occasions = request.occasions or DEFAULT_OCCASIONS
    families = request.families or tuple(Family)
    quiet = request.quiet
    chosen = {
        "name": name,
        "audience": request.audience,
        **{f"on_{one.lower()}": one in occasions for one in Occasion if one is not Occasion.TEST},
        **{f"for_{one.lower()}": one in families for one in Family},
        "least_impact": request.least_impact,
        "agent_id": request.agent_id,
        "policy_kind": request.policy_kind,
        "least_severity": request.least_severity,
        "task_group": request.task_group,
        "quiet_from": None if quiet is None else quiet.start,
        "quiet_to": None if quiet is None else quiet.end,
        "quiet_zone": "" if quiet is None else quiet.zone,
        "quiet_exempt": "" if quiet is None or quiet.exempt is None else quiet.exempt,
        "quiet_exempt_severity": "" if quiet is None else quiet.exempt_severity or "",
    }
    for column, value in chosen.items():
        setattr(row, column, value)
    row.save()
    _record(row.tenant, actor, row, entry(route_id=str(row.pk), **row.recorded()))
    return SavedRoute(route=row, secret=secret)


def _trouble(quiet: QuietChoice) -> Problem | None:
    if quiet.start == quiet.end:
        return _unfit("quiet_to", "Quiet hours must end at another time than they begin.")
    try:
        ZoneInfo(quiet.zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return _unfit("quiet_zone", "Enter a time zone such as Europe/Berlin or UTC.")
    return None


def _locked(tenant: str, route_id: UUID) -> NotificationRoute | None:
    rows = NotificationRoute.objects.of(tenant).select_for_update()
    return rows.filter(route_id=route_id, deleted_at=None).first()


def _drop_waiting(row: NotificationRoute, why: str) -> None:
    Notice.objects.filter(route=row, state=NoticeState.PENDING).update(
        state=NoticeState.DROPPED, ended_at=clock.now(), error=why
    )


def _record(tenant: str, actor: str, row: NotificationRoute, event: events.Event) -> None:
    at = row.deleted_at or clock.now()
    ledger.append_to(tenant=tenant, stream=actors.SYSTEM, actor=actor, at=at, events=[event])


def _taken(name: str) -> Problem:
    wrong = (Violation(pointer="name", message=f"Another route has the name {name}."),)
    return Problem(code=ProblemCode.NAME_TAKEN, detail="Choose another name.", violations=wrong)


def _unfit(field: str, said: str) -> Problem:
    wrong = (Violation(pointer=field, message=said),)
    return Problem(code=ProblemCode.INVALID_REQUEST, detail=said, violations=wrong)


def _unknown() -> Problem:
    return Problem(code=ProblemCode.NOT_FOUND, detail="No notification route has this id, or it was deleted.")
