"""What waits for a person, by kind: a bounded query each, with the permission of whom it waits for."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import Any, Final

from django.contrib.auth.models import User
from django.db.models import Count, IntegerField, Q, QuerySet, Value
from django.db.models.functions import Coalesce
from django.urls import reverse

from audit import statements
from audit.access import roles
from audit.access.roles import Permission, Role
from runtime.contracts.guard import GuardRunState, ReviewState
from runtime.contracts.states import AgentStatus, CircuitState, TaskState
from runtime.execution.models import Circuit, HumanTask
from runtime.flows.queries import calls_in_doubt
from runtime.guards.models import GuardRun, Review
from runtime.incidents.models import Incident
from runtime.incidents.queries import incident_list
from runtime.kernel import effects
from runtime.outward.models import Receiver
from runtime.outward.queries import receiver_list
from runtime.registry.models import Agent, Key, Manifest, OwnerChange, PolicyKind
from runtime.registry.models.calibration_maps import CalibrationMap
from runtime.registry.services import dual_control
from runtime.state.models import MemoryItem

UNUSED_DAYS: Final = 90
FAILED_HOURS: Final = 24
SHOWN: Final = 20
LONGEST: Final = 200  # characters of one line


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where, for whom and since when things wait: of a statement that is compiled, its parameters."""

    tenant: str
    person: int
    failed_since: datetime
    failing_since: datetime
    unused_since: datetime
    due_by: date


@dataclass(frozen=True)
class Asked:
    """For whom, and when."""

    tenant: str
    actor: str
    person: int
    at: datetime

    @cached_property
    def bounds(self) -> Bounds:
        """What the queries compare with."""
        return Bounds(
            tenant=self.tenant,
            person=self.person,
            failed_since=self.at - timedelta(hours=FAILED_HOURS),
            failing_since=self.at - timedelta(seconds=receiver_list.LATE_S),
            unused_since=self.at - timedelta(days=UNUSED_DAYS),
            due_by=self.at.date(),
        )

    @cached_property
    def is_alone(self) -> bool:
        """Whether the person is the only admin, and so may agree to what they wrote."""
        return dual_control.others(actor=self.actor, at=self.at).is_now


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that waits: what it is, since when, and where it is dealt with."""

    what: str
    since: datetime | None
    url: str


@dataclass(frozen=True, slots=True)
class Section:
    """The things of one kind that wait: the oldest few, and how many there are."""

    name: str
    title: str
    lines: Sequence[Line]
    total: int


@dataclass(frozen=True, slots=True)
class Source:
    """One kind of thing that waits. `since` is the column of its time; `line` gives words and address.

    `author` is the column of who wrote it, where somebody else has to agree to it.
    """

    name: str
    title: str
    permission: Permission
    find: Callable[[Bounds], QuerySet[Any]]
    since: str
    line: Callable[[Any], tuple[str, str]]
    author: str = ""


def count(asked: Asked, held: frozenset[Role]) -> int:
    """How many things wait for somebody with these roles, in one query; drafts of their own cost one more."""
    names = tuple(source.name for source in SOURCES if roles.allows(held, source.permission))
    if not names:
        return 0
    rows = _COUNTS.rows(names, actor=asked.actor, **asdict(asked.bounds))
    waiting, own = sum(total for total, _ in rows), sum(of_person for _, of_person in rows)
    return waiting - own if own and not asked.is_alone else waiting


def list_sections(asked: Asked, held: frozenset[Role]) -> list[Section]:
    """What waits for somebody with these roles; kinds of which nothing waits are left out."""
    found = []
    for source in SOURCES:
        if not roles.allows(held, source.permission):
            continue
        rows = _not_own(source.find(asked.bounds), asked, source.author)
        lines = [_line(source, row) for row in rows.order_by(source.since, "pk")[:SHOWN]]
        total = len(lines) if len(lines) < SHOWN else rows.count()
        if lines:
            found.append(Section(source.name, source.title, lines, total))
    return found


def _line(source: Source, row: Any) -> Line:
    what, url = source.line(row)
    since = getattr(row, source.since)
    return Line(effects.visible(what)[:LONGEST], since if isinstance(since, datetime) else None, url)


def _counts(names: Sequence[str], *, actor: str, **bounds: Any) -> QuerySet[Any, Any]:
    """Of each of these sources the number of things, and of those that the person wrote."""
    rows: list[QuerySet[Any, Any]] = [
        _as_counts(source, source.find(Bounds(**bounds)), actor) for source in SOURCES if source.name in names
    ]
    together: QuerySet[Any, Any] = rows[0].union(*rows[1:], all=True)
    return together


_COUNTS: Final[statements.Read[tuple[int, int]]] = statements.Read(_counts)


def _as_counts(source: Source, rows: QuerySet[Any], actor: str) -> QuerySet[Any, Any]:
    """A query of one row without grouping."""
    none: Any = Value(0, output_field=IntegerField())
    own = Count("pk", filter=Q(**{source.author: actor})) if source.author else none
    return statements.as_one(rows, total=Count("pk"), own=own)


def _not_own(rows: QuerySet[Any], asked: Asked, author: str) -> QuerySet[Any]:
    """Without what the person wrote, which somebody else has to agree to; the only admin agrees alone."""
    if not author:
        return rows
    own = {author: asked.actor}
    hides = rows.filter(**own).exists() and not asked.is_alone
    return rows.exclude(**own) if hides else rows


def _manifests(asked: Bounds) -> QuerySet[Manifest]:
    rows = Manifest.objects.filter(agent__tenant=asked.tenant, activated_at=None, discarded_at=None)
    return rows.exclude(agent__status=AgentStatus.RETIRED)


def _kinds(asked: Bounds) -> QuerySet[PolicyKind]:
    return PolicyKind.objects.of(asked.tenant).filter(activated_at=None, discarded_at=None)


def _maps(asked: Bounds) -> QuerySet[CalibrationMap]:
    rows = CalibrationMap.objects.filter(agent__tenant=asked.tenant, activated_at=None, discarded_at=None)
    return rows.exclude(agent__status=AgentStatus.RETIRED)


def _owners(asked: Bounds) -> QuerySet[OwnerChange]:
    return OwnerChange.objects.filter(agent__tenant=asked.tenant, agreed_at=None, dropped_at=None)


def _tasks(asked: Bounds) -> QuerySet[HumanTask]:
    """Open tasks of the groups that the person is in."""
    mine = User.groups.through.objects.filter(user_id=asked.person).values("group__name")
    rows = HumanTask.objects.of(asked.tenant).filter(state=TaskState.OPEN)
    return rows.filter(group__in=mine)


def _memory(asked: Bounds) -> QuerySet[MemoryItem]:
    return MemoryItem.objects.of(asked.tenant).filter(quarantined=True)


def _reviews(asked: Bounds) -> QuerySet[Review]:
    return Review.objects.of(asked.tenant).filter(state=ReviewState.OPEN)


def _incidents(asked: Bounds) -> QuerySet[Incident]:
    return Incident.objects.of(asked.tenant).filter(lead=None, state__in=incident_list.UNCLOSED)


def _circuits(asked: Bounds) -> QuerySet[Circuit]:
    return Circuit.objects.of(asked.tenant).exclude(state=CircuitState.CLOSED)


def _guards(asked: Bounds) -> QuerySet[GuardRun]:
    rows = GuardRun.objects.of(asked.tenant).filter(state=GuardRunState.FAILED, guard__enabled=True)
    return rows.filter(finished_at__gt=asked.failed_since)


def _receivers(asked: Bounds) -> QuerySet[Receiver]:
    return receiver_list.failing(tenant=asked.tenant, since=asked.failing_since)


def _keys(asked: Bounds) -> QuerySet[Key]:
    rows = Key.objects.of(asked.tenant).filter(agent__isnull=False, revoked_at=None)
    rows = rows.exclude(agent__status=AgentStatus.RETIRED).annotate(
        used_at=Coalesce("last_used_at", "created_at")
    )
    return rows.filter(used_at__lt=asked.unused_since)


def _due(asked: Bounds) -> QuerySet[Agent]:
    rows = Agent.objects.of(asked.tenant).filter(review_on__lte=asked.due_by)
    return rows.exclude(status=AgentStatus.RETIRED)


def _agent(agent_id: str) -> str:
    return reverse("agent", args=[agent_id])


SOURCES: Final = (
    Source(
        "manifests",
        "Manifests to activate",
        Permission.MANAGE_REGISTRY,
        lambda asked: _manifests(asked).select_related("agent"),
        "created_at",
        lambda row: (
            f"{row.agent.agent_id}, manifest {row.version}",
            reverse("manifest", args=[row.agent.agent_id, row.version]),
        ),
        author="created_by",
    ),
    Source(
        "kinds",
        "Policy kinds to activate",
        Permission.MANAGE_REGISTRY,
        _kinds,
        "created_at",
        lambda row: (f"{row.kind}, version {row.version}", reverse("kind", args=[row.kind])),
        author="created_by",
    ),
    Source(
        "maps",
        "Calibration maps to activate",
        Permission.MANAGE_REGISTRY,
        lambda asked: _maps(asked).select_related("agent"),
        "created_at",
        lambda row: (
            f"{row.agent.agent_id}, map {row.version} for {row.policy_kind}",
            f"{reverse('agent-calibration', args=[row.agent.agent_id])}?map={row.version}",
        ),
        author="created_by",
    ),
    Source(
        "owners",
        "Changes of owner to agree to",
        Permission.MANAGE_REGISTRY,
        lambda asked: _owners(asked).select_related("agent"),
        "asked_at",
        lambda row: (
            f"{row.agent.agent_id}: from {row.owner_before} to {row.owner_after}",
            _agent(row.agent.agent_id),
        ),
        author="asked_by",
    ),
    Source(
        "tasks",
        "Tasks for your groups",
        Permission.ANSWER_TASKS,
        lambda asked: _tasks(asked).select_related("intent__flow"),
        "opened_at",
        lambda row: (
            f"{row.group}: {row.step} of {row.intent.flow.policy_kind}, "
            f"by {row.deadline_at:%Y-%m-%d %H:%M} UTC",
            reverse("task", args=[row.pk]),
        ),
    ),
    Source(
        "doubts",
        "Calls in doubt",
        Permission.DECIDE,
        lambda asked: calls_in_doubt.left_in_doubt(asked.tenant).select_related("intent__flow"),
        "started_at",
        lambda row: (
            f"{row.intent.flow.policy_kind} at {row.intent.target or 'its target'}",
            reverse("calls-in-doubt"),
        ),
    ),
    Source(
        "contradicted",
        "Receipts that contradict a statement",
        Permission.DECIDE,
        lambda asked: calls_in_doubt.contradicted(asked.tenant).select_related("intent__flow"),
        "started_at",
        lambda row: (
            f"{row.intent.flow.policy_kind} at {row.intent.target or 'its target'}",
            reverse("calls-in-doubt"),
        ),
    ),
    Source(
        "reviews",
        "Open reviews",
        Permission.REVIEW,
        lambda asked: _reviews(asked).select_related("agent", "guard", "memory"),
        "flagged_at",
        lambda row: (
            f"{row.agent.agent_id}, flagged by {row.asked_by}",
            reverse("review", args=[row.pk]),
        ),
    ),
    Source(
        "incidents",
        "Incidents that nobody leads",
        Permission.WORK_INCIDENTS,
        _incidents,
        "opened_at",
        lambda row: (f"{row.severity}: {row.title}", reverse("incident", args=[row.pk])),
    ),
    Source(
        "memory",
        "Memory in quarantine",
        Permission.MANAGE_MEMORY,
        lambda asked: _memory(asked).select_related("writer"),
        "written_at",
        lambda row: (
            f"{row.scope}/{row.key}, written by {row.writer.agent_id}",
            reverse("memory-item", args=[row.pk]),
        ),
    ),
    Source(
        "circuits",
        "Open circuits",
        Permission.CLOSE_CIRCUITS,
        _circuits,
        "changed_at",
        lambda row: (f"{row.target}, after {row.failures} failed calls", reverse("targets")),
    ),
    Source(
        "guards",
        f"Guards that failed in the last {FAILED_HOURS} hours",
        Permission.MANAGE_GUARDS,
        lambda asked: _guards(asked).select_related("guard"),
        "finished_at",
        lambda row: (f"{row.guard.guard_id}: {row.detail or 'no detail'}", reverse("reviews")),
    ),
    Source(
        "receivers",
        "Receivers of events that have taken nothing for an hour",
        Permission.MANAGE_OUTWARD,
        _receivers,
        "failing_since",
        lambda row: (f"{row.name}: {row.error}", reverse("receivers")),
    ),
    Source(
        "keys",
        f"Agent keys unused for {UNUSED_DAYS} days",
        Permission.MANAGE_REGISTRY,
        lambda asked: _keys(asked).select_related("agent"),
        "used_at",
        lambda row: (
            f"{row.key_id} of {row.agent.agent_id}" + ("" if row.last_used_at else ", never used"),
            _agent(row.agent.agent_id),
        ),
    ),
    Source(
        "due",
        "Agent reviews due",
        Permission.MANAGE_REGISTRY,
        _due,
        "review_on",
        lambda row: (f"{row.agent_id}, due on {row.review_on:%Y-%m-%d}", _agent(row.agent_id)),
    ),
)
