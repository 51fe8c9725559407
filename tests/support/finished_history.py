"""A finished history with everything in it: what the tamper cases are tried on."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import time
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.conf import settings
from django.contrib.auth.models import User

from audit.access.roles import Role
from audit.records import queries as records
from escalations.contracts import Action
from escalations.models import Escalation
from escalations.services import claiming, notes
from escalations.services.notices import routes
from runtime.contexts.services import contexts
from runtime.contracts.problem import Problem
from runtime.contracts.states import AgentStatus, Impact
from runtime.flows.services import record_feedback
from runtime.kernel.authority_limits import AuthorityLimit
from runtime.maintenance.services import sealing
from runtime.outward.services import receivers
from runtime.registry.models import Agent
from runtime.registry.queries import owners
from runtime.registry.services import agents, authority, credentials, ownership, registration, users
from runtime.state.models import MemoryItem
from runtime.state.services import memory
from runtime.stops.services import stops
from tests.support import (
    calibration_story,
    event_receivers,
    factories,
    fake_target,
    gate_cases,
    guard_rounds,
    hold_story,
    incident_story,
    notice_receivers,
    resources_pack,
    trading_desk,
)
from tests.support.fake_target import REFUSE, Book


@dataclass(frozen=True, kw_only=True)
class History:
    """The flows of it by what became of them."""

    accepted: UUID
    overridden: UUID
    modified: UUID
    aborted: UUID
    undone: UUID


@contextmanager
def opened() -> Iterator[History]:
    """The history, with its target listening until the tests are done."""
    with pytest.MonkeyPatch.context() as patch, fake_target.opened() as target:
        patch.setattr(settings, "DIR_EGRESS_ALLOW", ["127.0.0.1"])
        yield write(target, patch)


def write(target: Book, monkeypatch: pytest.MonkeyPatch) -> History:
    """Accept, escalate and override, modify, abort, and a saga that is undone; all of it by the services."""
    with monkeypatch.context() as patch:
        patch.setattr(trading_desk, "PACK", fake_target.pack())
        patch.setattr(
            trading_desk,
            "PACK",
            resources_pack.with_claims(trading_desk.PACK).replace("capacity: 100,", "capacity: 1000,"),
        )
        buyer = trading_desk.open_desk(base_url=target.base_url)
    asked_twice = buyer.open()
    for _ in range(2):
        _good(contexts.compile_context(agent=buyer.agent, dfid=asked_twice))
    done = buyer.accept()
    fake_target.walk(done)
    target.faults["/ship"] = [REFUSE]
    undone = buyer.accept()
    fake_target.walk(undone)
    desk = factories.desk(agent_id="analyst", manifest=gate_cases.manifest(**_GRANTS))
    olivia = _person("olivia", Role.OPERATOR)
    guard_rounds.configure()
    guard_rounds.propose(desk)
    guard_rounds.run_all()
    overridden, modified, aborted = (desk.escalate(explain="The trend is clear.") for _ in range(3))
    _good(factories.decide(overridden, olivia))
    _good(factories.decide(modified, olivia, Action.MODIFY, params=gate_cases.PARAMS))
    _good(factories.decide(aborted, olivia, Action.REQUEST_INFO, justification="Which signals?"))
    _good(factories.answer(desk, aborted))
    _good(factories.decide(aborted, olivia, Action.ABORT))
    asked = desk.escalate(explain="Nobody has answered yet.")
    _good(factories.decide(asked, olivia, Action.REQUEST_INFO, justification="Which signals?"))
    _notes(desk, asked, olivia)
    _feedback(trading_desk.flow_of(done).dfid, olivia)
    _registry(desk)
    _routes()
    _receivers()
    mara = _person("mara", Role.SENIOR)
    hold_story.release(hold_story.place(overridden.flow_id))
    # On what no record names, so that the words of each flow can be erased.
    hold_story.place(subject="account:4711", name="case-2")
    incident_story.write(author=olivia.pk, other=mara.pk, dfid=overridden.flow_id)
    sealing.seal_now()
    # Of what comes now there is an entry that waits for the tree.
    _good(stops.stop_agent(tenant="default", agent_id=trading_desk.AGENT, actor="user:1", reason="drill"))
    return History(
        accepted=trading_desk.flow_of(done).dfid,
        overridden=overridden.flow_id,
        modified=modified.flow_id,
        aborted=aborted.flow_id,
        undone=trading_desk.flow_of(undone).dfid,
    )


def _other_owner() -> None:
    """One change that another admin agreed to, one that was dropped, and one that waits."""
    ada, bob = (f"user:{_person(name, Role.ADMIN).pk}" for name in ("ada", "bob"))
    for owner, by, end in (
        ("bob", ada, ownership.agree),
        ("ada", bob, ownership.drop),
        ("olivia", ada, None),
    ):
        agent = Agent.objects.get(agent_id="analyst")
        seen = registration.profile_of(agent)
        wanted = replace(seen, owner=owner)
        _good(registration.edit(tenant="default", agent_id="analyst", seen=seen, wanted=wanted, actor=by))
        change = owners.get_asked(agent=agent)
        assert change is not None
        if end is not None:
            other = bob if by == ada else ada
            _good(end(tenant="default", agent_id="analyst", change_pk=change.pk, actor=other))


_GRANTS: dict[str, Any] = {
    "memory_scopes": [{"scope": "desk", "access": "WRITE"}],
    "escalations_per_hour": 9,
}


def _quarantine(desk: factories.Desk) -> None:
    """One item is let in, and one is kept out."""
    for key, end in (("in", memory.release), ("out", memory.discard)):
        _good(memory.write(agent=desk.again(), scope="desk", key=key, value=key, source="web:x", ttl_s=None))
        row = MemoryItem.objects.get(key=key)
        _good(end(tenant="default", pk=row.pk, digest=row.digest, reason="Looked at.", actor="user:1"))


def _routes() -> None:
    """One route that was deleted, one that was switched off and on again, with quiet hours."""
    gone = notice_receivers.add("https://hooks.example.com/gone", name="gone").route
    _good(routes.delete(tenant="default", route_id=gone.pk, actor="user:1"))
    quiet = routes.QuietChoice(start=time(22), end=time(7), zone="UTC", exempt=Impact.HIGH_IMPACT)
    kept = notice_receivers.add("https://hooks.example.com/kept", name="kept", audience="desk", quiet=quiet)
    for enabled in (False, True):
        _good(routes.switch(tenant="default", route_id=kept.route.pk, enabled=enabled, actor="user:1"))


def _receivers() -> None:
    """One receiver that was changed, moved, paused and resumed, and one that is paused."""
    named: dict[str, Any] = {"tenant": "default", "actor": "user:1"}
    for name in ("hook", "paused"):
        row = event_receivers.add("https://hooks.example.com/events", name=name)
        of = {**named, "receiver_id": row.pk}
        _good(receivers.change(wanted=event_receivers.wanted("https://hooks.example.com/2"), **of))
        _good(receivers.move(from_leaf=row.next_leaf, to_leaf=0, reason="again", **of))
        _good(receivers.pause(reason="maintenance", **of))
        if name == "hook":
            _good(receivers.resume(reason="done", **of))


def _registry(desk: factories.Desk) -> None:
    _quarantine(desk)
    _good(
        memory.write(
            agent=desk.again(), scope="desk", key="view", value={"trend": "up"}, source="agent:x", ttl_s=None
        )
    )
    auditor = credentials.issue_auditor_key(tenant="default", auditor="regulator", actor="user:1")
    assert isinstance(auditor, credentials.IssuedKey)
    spare = credentials.issue_feed_key(tenant="default", feed="spare", prefix="spare.", actor="user:1")
    assert isinstance(spare, credentials.IssuedKey)
    _good(credentials.revoke_key(key_id=spare.key_id, actor="user:1"))
    _other_owner()
    limit = AuthorityLimit(holder="role:operator", amount=900)
    ada = User.objects.get(username="ada")
    _good(authority.set_limit(tenant="default", wanted=limit, actor=f"user:{ada.pk}"))
    _person("left", Role.ADMIN)
    _good(users.deactivate(tenant="default", name="left", actor="user:1"))
    agents.set_status(
        tenant="default", agent_id="analyst", status=AgentStatus.SUSPENDED, reason="drill", actor="user:1"
    )
    stops.stop_all(tenant="default", actor="user:1", reason="drill")
    stops.resume_all(tenant="default", actor="user:1")
    # Last, so that the earlier entries of the agent keep their places.
    calibration_story.write("analyst")


def _person(name: str, role: Role) -> User:
    added = users.add(tenant="default", name=name, password="a long passphrase", roles=[role], actor="system")
    assert isinstance(added, User)
    return added


def _notes(desk: factories.Desk, asked: Escalation, olivia: User) -> None:
    """One beside an agent, one for the next shift, and one with which a claim was handed over."""
    sam = _person("sam", Role.OPERATOR)
    known: dict[str, Any] = {"tenant": "default", "author": olivia}
    _good(notes.write_on_agent(agent_id=desk.agent.agent_id, text="Watch it, @sam.", **known))
    _good(notes.hand_over_shift(text="Nothing unusual.", **known))
    _good(claiming.claim(tenant="default", escalation_id=asked.pk, user=olivia))
    _good(
        claiming.hand_over(
            tenant="default", escalation_id=asked.pk, user=olivia, receiver=sam.username, note="Yours, @sam."
        )
    )


def _feedback(dfid: UUID, olivia: User) -> None:
    """On the last record of a flow, after its end."""
    record = records.list_of_flow(tenant="default", dfid=dfid)
    assert record is not None
    _good(
        record_feedback.give(
            tenant="default",
            record=record.records[-1],
            author=olivia,
            form_id=uuid4(),
            assessment="WRONG",
            correction="REFUSE",
            reason="The trend had turned.",
        )
    )


def _good(answer: Any) -> None:
    assert not isinstance(answer, Problem), answer
