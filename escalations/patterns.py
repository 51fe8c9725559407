"""What stands out about a proposal beside earlier ones: asked before, look-alike names, an unusual rate.

Read from rows when a page is shown: no part of the evidence, and not compared with the ledger. Every query
ends after a fixed number of rows, which an index gives from the newest on.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet

from audit import actors, canonical, statements
from audit.verification.verify import UNREADABLE
from escalations.evidence_contracts import JudgedEvidence
from escalations.models import Escalation
from runtime.contracts import timestamps
from runtime.flows.models import Flow, Proposal
from runtime.kernel import lookalikes, usual_rate
from runtime.kernel.lookalikes import Lookalike
from runtime.kernel.usual_rate import Rate

# Newest proposals of the agent, and newest flows of the kind, whose parameters are compared.
COMPARED: Final = 200
# Newest proposals of the agent whose times are counted.
COUNTED: Final = 1000
USUAL: Final = timedelta(days=7)
MOST_SHOWN: Final = 5
LEAST_NAME_CHARS: Final = 3


@dataclass(frozen=True, slots=True)
class Earlier:
    """An earlier proposal of the agent; `same` in every parameter, or else in all but its numbers.

    `outcome` is the status of what ran in its flow, empty if nothing has.
    """

    dfid: UUID
    received_at: datetime
    same: bool
    flow_state: str
    outcome: str


@dataclass(frozen=True, slots=True)
class Suspect:
    """A name among the parameters that looks like an often used one, or mixes scripts."""

    param: str
    name: str
    is_mixed: bool
    like: Sequence[Lookalike]


@dataclass(frozen=True, slots=True)
class Patterns:
    """What stands out now. `same` and `similar` count earlier proposals among the newest `COMPARED`."""

    same: int
    similar: int
    earlier: Sequence[Earlier]
    suspects: Sequence[Suspect]
    rate: Rate


def find(*, escalation: Escalation, shown: JudgedEvidence, at: datetime) -> Patterns:
    """Compare the proposal that the evidence holds with what was proposed before it, as of `at`."""
    earlier = _list_earlier(escalation, shown)
    return Patterns(
        same=sum(item.same for item in earlier),
        similar=sum(not item.same for item in earlier),
        earlier=sorted(earlier, key=lambda item: not item.same)[:MOST_SHOWN],
        suspects=_list_suspects(escalation, shown),
        rate=_rate(escalation, shown, at),
    )


def _list_earlier(escalation: Escalation, shown: JudgedEvidence) -> list[Earlier]:
    """List the agent's own earlier proposals with these parameters, the newest first."""
    newest = _EARLIER.rows(
        COMPARED,
        agent=escalation.flow.agent_id,
        besides=escalation.flow_id,
        until=escalation.opened_at,
    )
    # A person's proposal in the same flow is how an escalated one was answered: its outcome is that of both.
    outcomes: dict[UUID, str] = {}
    asked: list[tuple[Proposal, bool]] = []
    own, wanted = actors.agent(shown.agent_id), _likeness(shown.proposal.params)
    for row in newest:
        intent = getattr(row, "intent", None)
        outcome = None if intent is None else getattr(intent, "outcome", None)
        if outcome is not None:
            outcomes.setdefault(row.flow_id, outcome.status)
        if row.policy_kind != shown.policy_kind or row.author != own:
            continue
        theirs = _likeness(_params_of(row.body))
        if theirs.whole == wanted.whole or (wanted.about and theirs.about == wanted.about):
            asked.append((row, theirs.whole == wanted.whole))
    return [
        Earlier(
            dfid=row.flow_id,
            received_at=row.received_at,
            same=same,
            flow_state=row.flow.state,
            outcome=outcomes.get(row.flow_id, ""),
        )
        for row, same in asked
    ]


def _earlier(most: int, *, agent: int, besides: UUID, until: datetime) -> QuerySet[Proposal]:
    rows = Proposal.objects.filter(agent=agent, received_at__lte=until).exclude(flow=besides)
    return rows.select_related("flow", "intent__outcome").order_by("-received_at")[:most]


_EARLIER: Final = statements.Read(_earlier)


def _list_suspects(escalation: Escalation, shown: JudgedEvidence) -> list[Suspect]:
    """List the free names of the proposal that are not what they seem, beside those of the newest flows."""
    kind, schema = shown.policy_kind, shown.kind.params_schema
    names = _free_names(shown.proposal.params, schema)
    if not names:
        return []
    flows = Flow.objects.of(escalation.tenant).filter(policy_kind=kind).exclude(pk=escalation.flow_id)
    newest = list(flows.order_by("-dfid").values_list("pk", flat=True)[:COMPARED])
    used: dict[str, Counter[str]] = {param: Counter() for param in names}
    bodies = Proposal.objects.filter(flow__in=newest, policy_kind=kind)
    seen: set[tuple[UUID, str, str]] = set()
    for dfid, body in bodies.values_list("flow_id", "body")[: 2 * COMPARED]:
        for param, name in _free_names(_params_of(body), schema).items():
            # Several attempts in one flow are one use.
            if param in used and (dfid, param, name) not in seen:
                seen.add((dfid, param, name))
                used[param][name] += 1
    found = (
        Suspect(
            param=param,
            name=name,
            is_mixed=lookalikes.is_mixed(name),
            like=lookalikes.find(name, used[param]),
        )
        for param, name in names.items()
    )
    return [item for item in found if item.like or item.is_mixed]


def _rate(escalation: Escalation, shown: JudgedEvidence, at: datetime) -> Rate:
    begins = at - USUAL
    agent = escalation.flow.agent_id
    newest = _TIMES.rows(COUNTED, agent=agent, begins=begins, ends=at)
    # Before the agent's first proposal, and where the oldest were not read, nothing was counted.
    is_cut = len(newest) == COUNTED
    is_whole = not newest or (not is_cut and _OLDER.exists(agent=agent, before=begins))
    since = begins if is_whole else newest[-1][0]
    own = actors.agent(shown.agent_id)
    times = [
        timestamps.to_ms(received_at)
        for received_at, kind, author in newest
        if kind == shown.policy_kind and author == own
    ]
    return usual_rate.measure(
        times, now_ms=timestamps.to_ms(at), since_ms=timestamps.to_ms(since), is_cut=is_cut
    )


def _times(
    most: int, *, agent: int, begins: datetime, ends: datetime
) -> QuerySet[Proposal, tuple[datetime, str, str]]:
    rows = Proposal.objects.filter(agent=agent, received_at__gte=begins, received_at__lte=ends)
    return rows.order_by("-received_at").values_list("received_at", "policy_kind", "author")[:most]


def _older(*, agent: int, before: datetime) -> QuerySet[Proposal, Any]:
    return statements.any_of(Proposal.objects.filter(agent=agent, received_at__lt=before))


_TIMES: Final = statements.Read(_times)
_OLDER: Final = statements.Read(_older)


def _params_of(body: Any) -> dict[str, Any] | None:
    """Return the parameters of a stored proposal; None where its bytes cannot be read."""
    try:
        params = canonical.decode(bytes(body))["params"]
        canonical.encode(params)
    except UNREADABLE:
        return None
    return params if isinstance(params, dict) else None


def _free_names(params: Mapping[str, Any] | None, params_schema: Mapping[str, Any]) -> dict[str, str]:
    """Return the short texts among the parameters that their schema does not choose from a list."""
    properties = params_schema.get("properties", {})
    return {
        param: value
        for param, value in (params or {}).items()
        if isinstance(value, str)
        and LEAST_NAME_CHARS <= len(value) <= lookalikes.MAX_NAME_CHARS
        and {"enum", "const"}.isdisjoint(_keys(properties.get(param)))
    }


def _keys(schema: Any) -> Collection[str]:
    return schema.keys() if isinstance(schema, Mapping) else ()


@dataclass(frozen=True, slots=True)
class _Likeness:
    """What two proposals are compared by: all parameters, and all but the numbers; empty if none is left."""

    whole: bytes
    about: bytes


def _likeness(params: Mapping[str, Any] | None) -> _Likeness:
    if params is None:
        return _Likeness(whole=b"", about=b"")
    about = {
        name: value
        for name, value in params.items()
        if isinstance(value, bool) or not isinstance(value, int | float)
    }
    return _Likeness(whole=canonical.encode(dict(params)), about=canonical.encode(about) if about else b"")
