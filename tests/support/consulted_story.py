"""A flow in which two agents were consulted, of which one answered, written by the services."""

from uuid import UUID

from runtime.contracts.advice import ConsultedOption, ConsultRequest
from runtime.contracts.decision import OptionAction
from runtime.contracts.problem import Problem
from runtime.conversations.models import Message
from runtime.conversations.services import consulting, sending
from runtime.flows.services import flows
from runtime.registry.models import Session
from tests.support import factories, talking

CAPABILITY = "second-opinion"


def tell() -> UUID:
    """The flow: `planner` asked `oracle` and `sceptic`, and the sceptic said no."""
    agents = {name: factories.desk(agent_id=name).session for name in ("planner", "oracle", "sceptic")}
    factories.change_manifest("planner", consultations={"per_flow": 2, "cost_units": 3, "time_s": 60})
    for name in ("oracle", "sceptic"):
        _advertise(agents[name], name)
    opened = flows.open_flow(agent=agents["planner"].agent, trigger={"type": "tick"})
    assert not isinstance(opened, Problem), opened
    go = OptionAction(name="GO", parameters={"far": 3})
    asked = ConsultRequest(
        capability_name=CAPABILITY, question="Shall we go?", options=(ConsultedOption(id="go", action=go),)
    )
    answer = consulting.consult(agent=agents["planner"].agent, dfid=UUID(opened.dfid), asked=asked)
    assert not isinstance(answer, Problem), answer
    question = Message.objects.get(recipient__agent_id="sceptic", message_type="ConsultationRequest")
    said = talking.message(
        {"answer": {"choice": "none of them", "reason": "It rains."}},
        message_type="ConsultationResponse",
        correlation_id=question.message_id,
        conversation_id=question.conversation.name,
        from_agent_id="sceptic",
        to_agent_id="planner",
    )
    sent = sending.send(session=agents["sceptic"], received=talking.received(said))
    assert not isinstance(sent, Problem), sent
    return UUID(opened.dfid)


def _advertise(session: Session, agent_id: str) -> None:
    offer = {"capability_name": CAPABILITY, "versions": ["1.0"], "cost_model": {"per_call": 1.5}}
    sent = talking.message(
        offer,
        message_type="CapabilityAdvertise",
        conversation_id=f"offers-{agent_id}",
        from_agent_id=agent_id,
        to_agent_id=None,
    )
    advertised = sending.send(session=session, received=talking.received(sent))
    assert not isinstance(advertised, Problem), advertised
