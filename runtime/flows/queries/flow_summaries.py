"""What flows are about and what came of them, as their entries say, for pages that list many."""

import contextlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import OuterRef, Subquery, UUIDField

from audit import canonical, cells, erasures, queries
from audit.events import Kind
from audit.verification.verify import UNREADABLE
from runtime.contracts.verdict import Segment
from runtime.flows.models import Proposal, Verdict
from runtime.flows.queries import intent_records
from runtime.flows.queries.intent_records import IntentRecord
from runtime.registry.models import Agent

KINDS = frozenset(
    {
        Kind.VERDICT_GIVEN,
        Kind.INTENT_CREATED,
        Kind.INTENT_IN_DOUBT,
        Kind.FLOW_MOVED,
        *intent_records.ENDS,
    }
)


@dataclass(kw_only=True, slots=True)
class FlowCourse:
    """The verdicts and intents of one flow, by their ids, and the intent of each accepted proposal."""

    verdicts: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    intents: dict[str, IntentRecord] = field(default_factory=dict)
    intent_of: dict[str, str] = field(default_factory=dict)

    def follow(self, kind: Kind, payload: Mapping[str, Any]) -> None:
        """Take the next entry of the flow, of one of KINDS."""
        if kind is Kind.VERDICT_GIVEN:
            self.verdicts.setdefault(payload["proposal_id"], payload)
            return
        if kind is Kind.INTENT_CREATED:
            self.intent_of.setdefault(payload["proposal_id"], payload["intent_id"])
        intent_records.follow(self.intents, kind, payload)


@dataclass(frozen=True, kw_only=True, slots=True)
class FlowSummary:
    """The effect of a flow's last proposal, its verdict, and the intent that it became, if any.

    `is_untrusted`: the stored verdict does not match the ledger, so its effect is left out. `is_erased`: it
    is left out because the words of the flow were erased.
    """

    effect: tuple[Segment, ...] = ()
    is_untrusted: bool = False
    is_erased: bool = False
    verdict: str = ""
    intent: IntentRecord | None = None


def of_flows(*, tenant: str, dfids: Collection[UUID]) -> dict[UUID, FlowSummary]:
    """A summary of each flow that has a verdict: two queries, however many they are."""
    streams = queries.list_dated_by_stream(tenant=tenant, streams=[str(dfid) for dfid in dfids], kinds=KINDS)
    courses: dict[str, FlowCourse] = {}
    for stream, entries in streams.items():
        course = courses[stream] = FlowCourse()
        for kind, _, payload in entries:
            course.follow(kind, payload)
    last = {stream: [*course.verdicts][-1] for stream, course in courses.items() if course.verdicts}
    recorded = {given: courses[stream].verdicts[given] for stream, given in last.items()}
    effects = list_effects(recorded)
    without = [stream for stream, given in last.items() if given not in effects]
    erased = erasures.find_all(tenant=tenant, streams=without) if without else {}
    return {
        UUID(stream): FlowSummary(
            effect=effects.get(given, ()),
            is_untrusted=given not in effects and stream not in erased,
            is_erased=stream in erased,
            verdict=recorded[given]["verdict"],
            intent=courses[stream].intents.get(courses[stream].intent_of.get(given, "")),
        )
        for stream, given in last.items()
    }


def list_effects(recorded: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[Segment, ...]]:
    """The effect sentences of verdicts, by proposal; without those whose bytes are not as recorded.

    `recorded` holds the payload of the entry about each verdict.
    """
    rows = Verdict.objects.filter(pk__in=[*recorded]).values_list("pk", "body")
    found: dict[str, tuple[Segment, ...]] = {}
    for pk, body in rows:
        if cells.digest_of(body) == recorded[str(pk)]["verdict_digest"]:
            with contextlib.suppress(*UNREADABLE, KeyError):
                said = canonical.decode(bytes(body))["effect"]
                found[str(pk)] = tuple(Segment.model_validate(piece) for piece in said)
    return found


def last_flows(*, agent_pks: Iterable[int]) -> dict[int, UUID]:
    """The flow of the newest proposal of each agent, by the agent's primary key."""
    newest = Proposal.objects.filter(agent=OuterRef("pk")).order_by("-received_at").values("flow_id")[:1]
    rows = Agent.objects.filter(pk__in=[*agent_pks]).annotate(
        last_flow=Subquery(newest, output_field=UUIDField())
    )
    return {pk: dfid for pk, dfid in rows.values_list("pk", "last_flow") if dfid is not None}
