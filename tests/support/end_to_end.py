"""A console as a stranger meets it: agents at its API, people in a browser, and a target that counts."""

import re
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from django.contrib.auth.models import User
from django.test import Client

from runtime.contracts.problem import Problem
from runtime.core import clock
from runtime.flows.models import Intent
from runtime.packs.services import packs
from runtime.registry.services import credentials
from runtime.workers import embedded
from tests.properties import lifecycle_ground
from tests.properties.lifecycle_ground import AGENT, Broker
from tests.support import factories, markup
from tests.support.api_client import Caller, Heard
from tests.support.misbehaving_targets import StandIn

SIGN_IN = "allauth.account.auth_backends.AuthenticationBackend"
ONE, IN_STEPS, PROBED = lifecycle_ground.KINDS


@dataclass
class Console:
    """A loaded pack, its agent, and the target of its calls."""

    broker: Broker
    target: StandIn
    key: str
    agent: Caller

    def open(self, **named: Any) -> str:
        """A flow; its DFID."""
        return str(self.agent.post("/flows", {"trigger": "a price moved", **named}).ok(201)["dfid"])

    def body(self, dfid: str, **changes: Any) -> dict[str, Any]:
        """A proposal of ten units on a fresh context, but for `changes`."""
        quantity = changes.pop("quantity", 10)
        body = {
            "policy_kind": ONE,
            "params": {"quantity": quantity},
            "execution_constraints": {"validity_window_sec": 600},
            "context_ref": self.agent.context(dfid),
            "confidence": 0.9,
            **changes,
        }
        return {name: value for name, value in body.items() if value is not None}

    def propose(self, dfid: str = "", **changes: Any) -> dict[str, Any]:
        """The verdict on a proposal, in a flow of its own where none is named."""
        dfid = dfid or self.open()
        answer: dict[str, Any] = self.send(dfid, self.body(dfid, **changes)).ok()
        return answer

    def send(self, dfid: str, body: dict[str, Any], key: str = "") -> Heard:
        """A proposal under a key; whatever the API answers."""
        return Caller(self.agent.token).propose(dfid, body, key or uuid4().hex)

    def flow(self, dfid: str) -> dict[str, Any]:
        """The flow as its agent sees it."""
        seen: dict[str, Any] = self.agent.get(f"/flows/{dfid}").ok()
        return seen

    def feedback(self, dfid: str) -> list[tuple[str, dict[str, Any]]]:
        """What the agent was told, in order."""
        events = self.agent.get(f"/flows/{dfid}/feedback").ok()["events"]
        return [(event["event_type"], event["data"]) for event in events]

    def work(self, *, rounds: int = 1) -> None:
        """What the workers do: every intent that waits, due now, once a round."""
        for _ in range(rounds):
            Intent.objects.filter(state="PENDING").update(next_at=clock.now())
            for intent_id in list(Intent.objects.filter(state="PENDING").values_list("pk", flat=True)):
                assert embedded.attempt_quietly(intent_id, owner="worker")

    def effects(self) -> int:
        """How often the target has done something."""
        return sum(self.broker.effects.values())


def opened(broker: Broker, target: StandIn) -> Console:
    """Load the pack, issue a key, shake hands."""
    text = lifecycle_ground.PACK.replace("BASE_URL", target.base_url)
    loaded = packs.load(text=text, source="promises.yaml", activate=True, actor="system")
    assert isinstance(loaded, packs.Loaded), loaded
    issued = credentials.issue_agent_key(tenant=factories.TENANT, agent_id=AGENT, actor="system")
    assert not isinstance(issued, Problem), issued
    return Console(broker=broker, target=target, key=issued.text, agent=Caller(shake(issued.text)))


def hello(**changes: Any) -> dict[str, Any]:
    """The body of a handshake."""
    return {"agent_id": AGENT, "manifest_version": "1.0.0", "protocol_version": "1.0", **changes}


def shake(key: str) -> str:
    """A session token."""
    return str(Caller(key).post("/handshake", hello()).ok()["session_token"])


@dataclass
class Person:
    """Somebody at a browser, signed in."""

    account: User
    browser: Client

    def read(self, path: str) -> str:
        """A page."""
        answer = self.browser.get(path)
        assert answer.status_code == 200, (path, answer.status_code)
        return markup.tight(answer.content.decode())

    def decide(self, escalation_id: str, action: str, **changes: str) -> int:
        """Post the decision form of the page as it is now, but for `changes`; the status of the answer."""
        page = self.read(f"/escalations/{escalation_id}/")
        seen = {name: _field(page, name) for name in ("evidence_hash", "version", "impact")}
        form = {**seen, "action": action, "justification": factories.JUSTIFICATION, **changes}
        return self.browser.post(f"/escalations/{escalation_id}/decision/", form).status_code


def person(name: str = "olivia", *roles: str) -> Person:
    """A person with roles, an operator where none is named."""
    account, browser = factories.user(name, *roles), Client()
    browser.force_login(account, backend=SIGN_IN)
    return Person(account=account, browser=browser)


def _field(page: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', page)
    assert found is not None, f"the page has no {name}"
    return found[1]
