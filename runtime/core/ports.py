"""The doors out of the runtime: dotted paths in `settings.DIR_PORTS`, so that nothing here imports upward."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast
from uuid import UUID

from django.conf import settings
from django.utils.module_loading import import_string

from runtime.contracts.workflow import Next, WorkflowDocument
from runtime.core.mismatches import Mismatch
from runtime.kernel.gate.recheck import Withdrawn
from runtime.kernel.silence import Silence

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from runtime.execution.models import HumanTask
    from runtime.flows.models import Flow, Intent, Proposal, Verdict
    from runtime.flows.services.flow_transaction import Journal
    from runtime.incidents.models import Incident
    from runtime.registry.models import Agent
    from runtime.workflows.services.interrupts import Interrupt


# What happened to an incident that people outside the console can be told of; RAISED: its severity.
IncidentNews = Literal["OPENED", "RAISED", "CLOSED"]


class OpenEscalation(Protocol):
    """Opens an escalation inside the caller's transaction; returns what the journal and the answer need."""

    def __call__(
        self,
        *,
        flow: "Flow",
        proposal: "Proposal",
        verdict: "Verdict",
        intent: "Intent | None",
        family: str,
        reason: str,
        at: Any,
        withdrawn: Withdrawn | None = None,
    ) -> "Opened": ...


class Opened(Protocol):
    """An escalation as the runtime sees it: its id, its evidence hash and the entry that records it."""

    @property
    def escalation_id(self) -> UUID: ...
    @property
    def evidence_hash(self) -> str: ...
    @property
    def event(self) -> Any: ...


@cache
def _door(name: str) -> Any:
    return import_string(settings.DIR_PORTS[name])


def answer_exception(request: "HttpRequest", error: Exception) -> "HttpResponse":
    """What the API answers to a call that raised this: a problem document, recorded as that of a call."""
    return cast("HttpResponse", _door("answer_exception")(request, error))


def open_escalation(**named: Any) -> Opened:
    """Open an escalation (see `OpenEscalation` for the arguments)."""
    return cast(OpenEscalation, _door("open_escalation"))(**named)


def open_agent_escalation(*, flow: "Flow", agent: "Agent", silence: Silence) -> Opened:
    """Open the escalation of a silent agent on a flow of the runtime's own, in the caller's transaction."""
    return cast(Opened, _door("open_agent_escalation")(flow=flow, agent=agent, silence=silence))


def open_interrupt_escalation(
    *, flow: "Flow", agent: "Agent", interrupt: "Interrupt", at: datetime
) -> Opened:
    """Open the escalation of a flow that does not continue in its workflow, in the caller's transaction."""
    door = _door("open_interrupt_escalation")
    return cast(Opened, door(flow=flow, agent=agent, interrupt=interrupt, at=at))


def list_open_escalations(*, proposals: Collection[UUID]) -> dict[UUID, UUID]:
    """The open escalations about these proposals, by the id of the proposal."""
    return cast(dict[UUID, UUID], _door("list_open_escalations")(proposals=proposals))


def find_escalated_flow(*, tenant: str, escalation_id: UUID) -> UUID | None:
    """The flow of an escalation; None where there is no such escalation."""
    return cast(UUID | None, _door("find_escalated_flow")(tenant=tenant, escalation_id=escalation_id))


def close_escalations(*, flow: "Flow", at: Any) -> list[Any]:
    """Withdraw the open escalations of a flow that ends otherwise; returns their entries."""
    return cast(list[Any], _door("close_escalations")(flow=flow, at=at))


def expire_escalations() -> int:
    """Abort what nobody decided in time; returns how many were aborted."""
    return cast(int, _door("expire_escalations")())


def announce_incident(*, incident: "Incident", news: IncidentNews, at: datetime) -> None:
    """Queue what people outside the console are told of an incident, in the caller's transaction.

    The row is saved already, and `at` is the time of the entry. Nothing is sent here.
    """
    _door("announce_incident")(incident=incident, news=news, at=at)


def announce_task(*, task: "HumanTask", at: datetime) -> None:
    """Queue the notices of a task that opens, in the caller's transaction."""
    _door("announce_task")(task=task, at=at)


def send_notices(*, is_stopping: Callable[[], bool]) -> int:
    """Send what is due to people outside the console, one after the other; returns how many were taken."""
    return cast(int, _door("send_notices")(is_stopping=is_stopping))


def ring(intent_ids: Sequence[UUID]) -> None:
    """Ring the doorbell for intents that are ready. Never raises: the sweeper finds what a bell missed."""
    _door("ring")(intent_ids)


def ring_guards(run_ids: Sequence[int]) -> None:
    """Ring for guards that are to look. Never raises: their rows become due by themselves."""
    _door("ring_guards")(run_ids)


def has_dirty_flows(*, agent: "Agent") -> bool:
    """Whether a flow of the agent is partially executed and still being compensated."""
    return bool(_door("has_dirty_flows")(agent=agent))


def may_have_taken_effect(*, proposals: Collection[UUID]) -> bool:
    """Whether one of these proposals has, or may have, taken effect."""
    return bool(_door("may_have_taken_effect")(proposals=proposals))


def compare_approval(
    *, tenant: str, dfid: UUID, proposal_id: UUID, author: str, evidence_hash: str
) -> Mismatch | None:
    """What does not match of the signed decision behind a person's proposal; None where it stands."""
    found: Mismatch | None = _door("compare_approval")(
        tenant=tenant, dfid=dfid, proposal_id=proposal_id, author=author, evidence_hash=evidence_hash
    )
    return found


def begin_agent_events(*, agent: "Agent") -> None:
    """Begin the agent's stream of events with what is so now, in the caller's transaction."""
    _door("begin_agent_events")(agent=agent)


def queue_guards(*, proposal: "Proposal", at: datetime) -> None:
    """Queue the soft guards that review a proposal, in the transaction of its verdict."""
    _door("queue_guards")(proposal=proposal, at=at)


def fetch_issuer_keys(*, place: str) -> bytes | str:
    """The key set of an issuer of tokens, or in a few words why there is none. It blocks for seconds."""
    return cast("bytes | str", _door("fetch_issuer_keys")(place))


def request_route_review(
    *, journal: "Journal", workflow: WorkflowDocument, instruction: str, routed: Next
) -> None:
    """Mark a flow for review where a router acts on a step after the proposal, once for each router.

    In the transaction of the step, whose journal the caller writes. `instruction` is the step that was taken.
    """
    door = _door("request_route_review")
    door(journal=journal, workflow=workflow, instruction=instruction, routed=routed)


def list_resource_names(*, tenant: str) -> frozenset[str]:
    """The resources that claims of a policy kind may name."""
    return cast(frozenset[str], _door("list_resource_names")(tenant=tenant))


def list_existing_facts(*, tenant: str, selectors: Collection[str]) -> frozenset[str]:
    """Of paths, and of namespaces (with a dot at the end), those that a fact exists for."""
    return cast(frozenset[str], _door("list_existing_facts")(tenant=tenant, selectors=selectors))
