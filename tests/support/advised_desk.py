"""Flows of the underwriter that take advice, made through the API: with a proposal on it, and without one."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tests.support import advised_story, api_client, underwriting
from tests.support.underwriting import option

OBJECTIVES = [{"id": "margin", "weight": 0.6}, {"id": "speed", "weight": 0.4}]
OPTIONS = [option("A", margin=0.9, speed=0.2), option("B", margin=0.5, speed=0.9), option("C", margin=1)]


@dataclass(frozen=True, kw_only=True)
class Advised:
    """A flow whose proposal follows a package, one with advice and no proposal, and one that asked rules.

    `output`, `package` and `bare` are the API's answers: rules, what was built on them, and what on nothing.
    """

    followed: UUID
    output: dict[str, Any]
    package: dict[str, Any]
    bare: dict[str, Any]
    proposal: str
    advised: UUID
    asked: str
    asked_output: dict[str, Any]


def build() -> Advised:
    underwriting.load_packs()
    agent = api_client.session(underwriting.AGENT)
    followed, asked = agent.open_flow(), agent.open_flow()
    ref = agent.context(followed)
    output = underwriting.driver_rules(agent, followed)
    body = {"objectives": OBJECTIVES, "options": OPTIONS, "rule_output_id": output["rule_output_id"]}
    package = agent.post(f"/flows/{followed}/decide", body).ok()
    parameters = package["selected_action"]["parameters"]
    proposal = {**underwriting.proposal(package["decision_id"]), "params": parameters, "context_ref": ref}
    answer = agent.propose(followed, proposal).ok()
    return Advised(
        followed=UUID(followed),
        output=output,
        package=package,
        bare=agent.post(f"/flows/{agent.open_flow()}/decide", {"objectives": OBJECTIVES}).ok(),
        proposal=answer["proposal_id"],
        advised=advised_story.write(),
        asked=asked,
        asked_output=underwriting.driver_rules(agent, asked),
    )
