"""Admins, handshakes and proposals race: one manifest in force, and nothing else moved by it."""

import itertools
from functools import partial

import pytest

from audit.models import LedgerEntry
from runtime.contracts import api_schemas
from runtime.contracts.problem import Problem
from runtime.contracts.states import AgentStatus
from runtime.registry.models import Agent, Manifest, Session
from runtime.registry.services import agents, handshakes, manifests
from tests.support import factories, gate_cases, racing

ROUNDS = 4


def drafted(version: str) -> None:
    text = gate_cases.manifest(version=version).to_bytes().decode()
    row = manifests.draft(tenant="default", agent_id="trader", text=text, actor="user:1")
    assert isinstance(row, Manifest), row


def activated(version: str, *, seen: str, by: str = "user:2") -> Manifest | Problem:
    return manifests.activate(
        tenant="default", agent_id="trader", version=version, seen_active=seen, reason="race", actor=by
    )


def test_two_admins_activate_two_drafts_and_one_is_in_force(real_db: str) -> None:
    desk = factories.desk()
    drafted("1.5.0")
    drafted("1.6.0")
    before = LedgerEntry.objects.filter(kind="manifest:activated").count()

    answers = racing.race(
        2, lambda number: activated(("1.5.0", "1.6.0")[number], seen="1.4.0", by=f"user:{number + 2}")
    )

    (won,) = [answer for answer in answers if isinstance(answer, Manifest)]
    (lost,) = [answer for answer in answers if isinstance(answer, Problem)]
    assert (lost.status, lost.code) in {(409, "MANIFEST_MOVED"), (409, "MANIFEST_OVERTAKEN")}
    assert desk.again().active_manifest_id == won.pk
    assert Manifest.objects.filter(activated_at__isnull=False).count() == 2
    assert LedgerEntry.objects.filter(kind="manifest:activated").count() == before + 1


def test_two_admins_draft_the_same_version_and_one_row_is_stored(real_db: str) -> None:
    factories.desk()
    text = gate_cases.manifest(version="1.5.0").to_bytes().decode()
    before = LedgerEntry.objects.filter(kind="manifest:registered").count()

    answers = racing.race(
        4,
        lambda number: manifests.draft(
            tenant="default", agent_id="trader", text=text, actor=f"user:{number}"
        ),
    )

    assert sum(isinstance(answer, Manifest) for answer in answers) == 1
    assert all(answer.code == "MANIFEST_UNSOUND" for answer in answers if isinstance(answer, Problem))
    assert LedgerEntry.objects.filter(kind="manifest:registered").count() == before + 1


def test_one_admin_discards_what_another_activates(real_db: str) -> None:
    desk = factories.desk()
    drafted("1.5.0")

    def work(number: int) -> Manifest | Problem:
        if number:
            return activated("1.5.0", seen="1.4.0")
        return manifests.discard(
            tenant="default", agent_id="trader", version="1.5.0", reason="no", actor="user:3"
        )

    answers = racing.race(2, work)

    assert sum(isinstance(answer, Manifest) for answer in answers) == 1
    row = Manifest.objects.get(version="1.5.0")
    assert (row.activated_at is None) is (row.discarded_at is not None)
    assert (desk.again().active_manifest_id == row.pk) is (row.activated_at is not None)


def test_handshakes_beside_activations_move_neither_budget_nor_status(real_db: str) -> None:
    desk = factories.desk()
    desk.escalate()
    Agent.objects.filter(pk=desk.agent.pk).update(status=AgentStatus.PASSIVE, status_reason="spent")
    before = Agent.objects.values("status", "status_reason", "escalation_millitokens", "bucket_at").get()
    sessions = Session.objects.count()
    for number in range(ROUNDS):
        drafted(f"1.{5 + number}.0")

    def work(number: int) -> object:
        if number == 0:
            return [
                racing.patiently(partial(activated, f"1.{5 + at}.0", seen=f"1.{4 + at}.0"))
                for at in range(ROUNDS)
            ]
        asked = api_schemas.HandshakeRequest(
            agent_id="trader", manifest_version="1.4.0", protocol_version="1.0"
        )
        return [
            racing.patiently(
                lambda: handshakes.open_session(key=desk.session.key, agent=desk.again(), request=asked)
            )
            for _ in range(ROUNDS)
        ]

    done, *shaken = racing.race(4, work)

    assert isinstance(done, list)
    assert all(isinstance(answer, Manifest) for answer in done), done
    opened: list[object] = list(itertools.chain.from_iterable(shaken))  # type: ignore[arg-type]
    assert all(isinstance(answer, api_schemas.HandshakeAnswer) for answer in opened), opened
    assert Session.objects.count() == sessions + 3 * ROUNDS
    assert Agent.objects.values(*before).get() == before
    active = desk.again().active_manifest
    assert active is not None
    assert active.version == f"1.{4 + ROUNDS}.0"


def test_no_proposal_beside_activations_meets_an_agent_without_a_manifest(real_db: str) -> None:
    desk = factories.desk()
    for number in range(ROUNDS):
        drafted(f"1.{5 + number}.0")
    opened = [desk.open() for _ in range(ROUNDS)]

    def work(number: int) -> object:
        if number < ROUNDS:
            return racing.propose(desk, opened[number])["verdict"]
        return [
            racing.patiently(partial(activated, f"1.{5 + at}.0", seen=f"1.{4 + at}.0"))
            for at in range(ROUNDS)
        ]

    *verdicts, done = racing.race(ROUNDS + 1, work)

    assert isinstance(done, list)
    assert verdicts == ["ACCEPT"] * ROUNDS


@pytest.mark.parametrize("flows", [6])
def test_a_suspension_beside_proposals_lets_none_through_after_it(real_db: str, flows: int) -> None:
    desk = factories.desk()
    opened = [desk.open() for _ in range(flows)]

    def work(number: int) -> object:
        if number == flows:
            return agents.set_status(
                tenant="default",
                agent_id="trader",
                status=AgentStatus.SUSPENDED,
                seen=AgentStatus.ACTIVE,
                reason="race",
                actor="user:2",
            )
        return racing.propose(desk, opened[number])

    *answers, moved = racing.race(flows + 1, work)

    assert isinstance(moved, Agent)
    suspended = LedgerEntry.objects.get(kind="agent:status_changed")
    verdicts = LedgerEntry.objects.filter(kind="verdict:given")
    later = {entry.payload["verdict"] for entry in verdicts.filter(at__gt=suspended.at)}
    assert later <= {"REJECT"}
    refused = [answer for answer in answers if answer["verdict"] == "REJECT"]  # type: ignore[index]
    assert all(answer["reasons"][0]["code"] == "AGENT_SUSPENDED" for answer in refused)  # type: ignore[index]
    assert desk.again().status == AgentStatus.SUSPENDED
    assert desk.propose(desk.open())["verdict"] == "REJECT"
