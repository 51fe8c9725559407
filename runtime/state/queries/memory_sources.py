"""What the ledger proves of the source that an item of memory names, compared with the item's value.

A stored row is not believed: a version of a fact counts with the digest of its entry, a document of a flow
with the commitment in its entry. What was erased or pruned proves nothing any more.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from audit import canonical, queries
from audit.events import Kind
from audit.verification.verify import UNREADABLE
from runtime.contracts import api_schemas
from runtime.contracts.memory import SourceCheck, SourceKind, SourcePlace
from runtime.flows.models import Flow
from runtime.kernel import memory_sources
from runtime.registry.models import Agent
from runtime.registry.queries import granted_kinds
from runtime.state.models import FactVersion
from runtime.state.queries import recorded_facts, visible_facts
from runtime.state.queries.recorded_facts import Recorded

MAX_DIGITS: Final = 16
# The member of an entry that commits to a document, and where that stands.
_COMMITMENTS: Final[Mapping[Kind, tuple[str, SourcePlace]]] = {
    Kind.FLOW_OPENED: ("trigger_commitment", SourcePlace.TRIGGER),
    Kind.OUTCOME_RECORDED: ("receipt_commitment", SourcePlace.RECEIPT),
    Kind.SAGA_ADVANCED: ("receipt_commitment", SourcePlace.RECEIPT),
    Kind.ATTEMPT_REPORTED_LATE: ("receipt_commitment", SourcePlace.RECEIPT),
    Kind.TASK_ANSWERED: ("receipt_commitment", SourcePlace.RECEIPT),
    Kind.STEP_TAKEN: ("report_commitment", SourcePlace.STEP_OUTPUT),
}


@dataclass(frozen=True, slots=True)
class Looked:
    """What was found at a source, and where, if the value was."""

    check: SourceCheck
    place: SourcePlace | None = None


def look(*, agent: Agent, source: str, value: Any) -> Looked:
    """Compare a value with what it says it was taken from.

    `agent` names no bytes; `flow:<dfid>` must be one of the agent's flows, and `fact:<path>@<version>` a
    version of a fact that it may see.
    """
    match memory_sources.kind_of(source):
        case SourceKind.AGENT:
            return Looked(SourceCheck.OWN_CLAIM)
        case SourceKind.FACT:
            return _look_at_fact(agent, source.partition(":")[2], value)
        case SourceKind.FLOW:
            return _look_at_flow(agent, source.partition(":")[2], value)
        case SourceKind.OUTSIDE:
            return Looked(SourceCheck.OUTSIDE)
        case SourceKind.UNLABELLED:
            return Looked(SourceCheck.UNLABELLED)


def _look_at_fact(agent: Agent, name: str, value: Any) -> Looked:
    row = _visible_version(agent, name)
    if row is None:
        return Looked(SourceCheck.NOT_FOUND)
    if recorded_facts.compare(agent.tenant, [row])[row.pk] is not Recorded.SAME:
        return Looked(SourceCheck.NOT_PROVED)
    try:
        recorded = canonical.decode(bytes(row.value))
    except UNREADABLE:
        return Looked(SourceCheck.NOT_PROVED)
    if memory_sources.matches(recorded, value):
        return Looked(SourceCheck.MATCHED, SourcePlace.FACT)
    return Looked(SourceCheck.MISMATCHED)


def _visible_version(agent: Agent, name: str) -> FactVersion | None:
    path, _, version = name.partition("@")
    if not (version.isascii() and version.isdecimal()) or len(version) >= MAX_DIGITS:
        return None
    kinds = granted_kinds.list_granted(agent)
    selected = visible_facts.selectors(agent=agent, kinds=kinds)
    if not any(path.startswith(one) if one.endswith(".") else path == one for one in selected):
        return None
    return FactVersion.objects.of(agent.tenant).filter(path=path, version=int(version)).first()


def _look_at_flow(agent: Agent, name: str, value: Any) -> Looked:
    dfid = api_schemas.uuid_of(name)
    flow = None if dfid is None else Flow.objects.filter(dfid=dfid, agent=agent).first()
    if flow is None:
        return Looked(SourceCheck.NOT_FOUND)
    is_whole = True
    for place, recorded in _documents(flow.tenant, flow.dfid):
        if recorded is None:
            is_whole = False
        elif memory_sources.matches(canonical.decode(recorded), value):
            return Looked(SourceCheck.MATCHED, place)
    # What cannot be read any more may have held it: nobody can say.
    return Looked(SourceCheck.MISMATCHED if is_whole else SourceCheck.NOT_PROVED)


def _documents(tenant: str, dfid: UUID) -> Iterator[tuple[SourcePlace, bytes | None]]:
    """What the entries of a flow commit to, as canonical bytes; None where the bytes are gone or others."""
    told = queries.list_payloads(tenant=tenant, stream=str(dfid), kinds=tuple(_COMMITMENTS))
    named = [
        (place, commitment)
        for kind, said in told
        for member, place in [_COMMITMENTS[kind]]
        if (commitment := said.get(member)) is not None
    ]
    bodies = queries.list_bodies(tenant=tenant, commitments=[commitment for _, commitment in named])
    for place, commitment in named:
        try:
            body = bodies.get(commitment) or None
            if body is not None and place is SourcePlace.STEP_OUTPUT:
                # Of what an agent reports of a step, what it put into the step is no result.
                body = canonical.encode(canonical.decode(body)["output"])
        except UNREADABLE:
            body = None
        yield place, body
