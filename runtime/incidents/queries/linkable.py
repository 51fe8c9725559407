"""What an incident can link: each kind by what people call it, as it is kept."""

from dataclasses import dataclass
from uuid import UUID

from django.contrib.auth import get_user_model

from audit import actors
from audit.models import DecisionRecord
from runtime.contracts.incident import LONGEST_REF, LinkKind
from runtime.core import ports
from runtime.flows.models import Flow
from runtime.registry.models import Agent, Target
from runtime.registry.queries import people


@dataclass(frozen=True, slots=True)
class Linkable:
    """Something that exists; `dfid` is its flow, for those kinds that have one."""

    kind: LinkKind
    ref: str
    dfid: UUID | None = None


def find(*, tenant: str, kind: LinkKind, given: str) -> Linkable | None:
    """What `given` names, or None: an id, a name, and for a person the username or `user:7`."""
    given = given.strip()
    if not given or len(given) > LONGEST_REF or not given.isprintable():
        return None
    match kind:
        case LinkKind.FLOW:
            return _of_flow(tenant, kind, given, _uuid(given))
        case LinkKind.RECORD:
            rows = DecisionRecord.objects.filter(tenant=tenant, record_id=given)
            return _of_flow(tenant, kind, given, rows.values_list("dfid", flat=True).first())
        case LinkKind.ESCALATION:
            pk = _uuid(given)
            dfid = None if pk is None else ports.find_escalated_flow(tenant=tenant, escalation_id=pk)
            return _of_flow(tenant, kind, str(pk), dfid)
        case LinkKind.AGENT:
            is_there = Agent.objects.of(tenant).filter(agent_id=given).exists()
        case LinkKind.TARGET:
            is_there = Target.objects.of(tenant).filter(name=given).exists()
        case LinkKind.PERSON:
            return _person(given)
    return Linkable(kind, given) if is_there else None


def _of_flow(tenant: str, kind: LinkKind, ref: str, dfid: UUID | None) -> Linkable | None:
    if dfid is None or not Flow.objects.of(tenant).filter(pk=dfid).exists():
        return None
    return Linkable(kind, str(dfid) if kind is LinkKind.FLOW else ref, dfid)


def _person(given: str) -> Linkable | None:
    is_actor = given.removeprefix(actors.USER).isdigit() and actors.is_user(given)
    actor = given if is_actor else people.actor_of_name(actors.user(given))
    pk = actor.removeprefix(actors.USER)
    if not pk.isdigit() or len(pk) > people.MOST_DIGITS:
        return None
    return Linkable(LinkKind.PERSON, actor) if get_user_model().objects.filter(pk=int(pk)).exists() else None


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
