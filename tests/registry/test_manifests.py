"""Drafts, activations and discards: who may, what is recorded, and what stays as it was."""

from typing import Any

import pytest

from audit import canonical
from audit.models import LedgerEntry
from runtime.contexts.models import AgentEvent
from runtime.contexts.services import agent_events
from runtime.contracts.problem import Problem
from runtime.contracts.states import AgentStatus, ManifestState
from runtime.core import clock
from runtime.registry.models import Agent, Manifest, PolicyKind, Session
from runtime.registry.queries import manifest_versions
from runtime.registry.services import manifests
from runtime.resources.models import ComputeBudget
from tests.support import factories, gate_cases

pytestmark = pytest.mark.django_db


@pytest.fixture
def desk() -> factories.Desk:
    return factories.desk(manifest=gate_cases.manifest(compute={"tokens": 1000}))


def text_of(version: str = "1.5.0", **fields: Any) -> str:
    return gate_cases.manifest(version=version, **fields).to_bytes().decode()


def drafted(text: str, *, by: str = "user:1") -> Manifest:
    found = manifests.draft(tenant="default", agent_id="trader", text=text, actor=by)
    assert isinstance(found, Manifest), found
    return found


def activated(
    version: str = "1.5.0", *, seen: str = "1.4.0", reason: str = "reviewed", by: str = "user:2"
) -> Manifest | Problem:
    return manifests.activate(
        tenant="default", agent_id="trader", version=version, seen_active=seen, reason=reason, actor=by
    )


def discarded(
    version: str = "1.5.0", *, reason: str = "not needed", by: str = "user:1"
) -> Manifest | Problem:
    return manifests.discard(tenant="default", agent_id="trader", version=version, reason=reason, actor=by)


def refused(answer: object) -> tuple[int, str]:
    assert isinstance(answer, Problem), answer
    assert answer.detail.endswith(".")
    return answer.status, answer.code


def in_force(desk: factories.Desk) -> str:
    active = desk.again().active_manifest
    assert active is not None
    return active.version


def entry(kind: str) -> LedgerEntry:
    return LedgerEntry.objects.filter(kind=kind, stream="agent:trader").latest("seq")


def test_a_draft_is_stored_with_its_author_and_grants_nothing(desk: factories.Desk) -> None:
    row = drafted(text_of(limits={"max_notional_cents": 200_000}))

    assert manifest_versions.state_of(row, active_id=desk.again().active_manifest_id) is ManifestState.DRAFT
    assert desk.propose(desk.open(), params=factories.OVER_LIMIT)["verdict"] == "ESCALATE"
    recorded = entry("manifest:registered")
    assert recorded.actor == row.created_by == "user:1"
    assert recorded.payload == {"agent_id": "trader", "version": "1.5.0", "digest": row.digest}


def test_a_draft_may_be_written_as_a_pack_is(desk: factories.Desk) -> None:
    row = drafted("version: 1.5.0\npolicy_kinds: [ADJUST_POSITION]\nlimits: {max_notional_cents: 5}\n")

    assert manifest_versions.contract_of(row).limits == {"max_notional_cents": 5}


@pytest.mark.parametrize(
    ("text", "line", "field", "message"),
    [
        ("", 1, "", "the file is empty"),
        ("{", 1, "", "this is not JSON: "),
        ("\x00", 1, "", "this is not YAML, or nested too deep"),
        (" " * 100_001, 1, "", "the text is longer than 100000 characters"),
        ('{"version": "1.5.0",\n "version": "1.6.0"}', 2, "version", "this field is given twice"),
        ('{"version": "1.5.0",\n"policy_kinds": [],\n"power": 1}', 3, "power", "is not a known field"),
        ('{"version": "1.5.0",\n"policy_kinds": [],\n"limits": {"x": 0.5}}', 3, "limits.x", "a limit is "),
        ('{"policy_kinds": []}', 1, "version", "is required"),
    ],
)
def test_says_line_and_field_of_what_is_wrong(
    desk: factories.Desk, text: str, line: int, field: str, message: str
) -> None:
    checked = manifests.check(agent=desk.agent, text=text)

    (remark,) = checked.remarks
    assert (remark.line, remark.field, remark.is_wrong) == (line, field, True)
    assert remark.message.startswith(message)
    assert not checked.is_sound


def test_refuses_to_save_what_is_wrong_and_saves_nothing(desk: factories.Desk) -> None:
    text = text_of("1.4.0", policy_kinds=["NOPE"], may_delegate_to=["ghost"])
    answer = manifests.draft(tenant="default", agent_id="trader", text=text, actor="user:1")

    assert refused(answer) == (422, "MANIFEST_UNSOUND")
    assert isinstance(answer, Problem)
    assert [violation.pointer for violation in answer.violations] == [
        "version",
        "policy_kinds[0]",
        "may_delegate_to[0]",
        "may_delegate_to",
    ]
    assert Manifest.objects.count() == 1
    unreadable = manifests.draft(tenant="default", agent_id="trader", text="{", actor="user:1")
    assert refused(unreadable) == (422, "MANIFEST_UNSOUND")


def test_a_warning_keeps_nothing_from_being_saved(desk: factories.Desk) -> None:
    PolicyKind.objects.update(active=False)
    text = text_of(subscribes=["nowhere.", "price.", "price.AAPL", "price.NONE"])
    checked = manifests.check(agent=desk.agent, text=text)

    assert [remark.field for remark in checked.remarks] == [
        "policy_kinds[0]",
        "subscribes[0]",
        "subscribes[3]",
    ]
    assert drafted(text).version == "1.5.0"


def test_another_person_puts_a_draft_in_force_and_nothing_else_moves(desk: factories.Desk) -> None:
    desk.escalate()
    flow = desk.open()
    row = drafted(text_of(limits={"max_notional_cents": 200_000}, compute={"tokens": 5}))
    agent = Agent.objects.get(agent_id="trader")
    before = (agent.escalation_millitokens, agent.bucket_at, agent.status, agent.status_reason)
    sessions = list(Session.objects.values())
    caps = list(ComputeBudget.objects.values())

    answer = activated()

    assert isinstance(answer, Manifest)
    agent = desk.again()
    assert agent.active_manifest == row
    assert (agent.escalation_millitokens, agent.bucket_at, agent.status, agent.status_reason) == before
    assert list(Session.objects.values()) == sessions
    assert list(ComputeBudget.objects.values()) == caps
    assert desk.propose(flow, params=factories.OVER_LIMIT)["verdict"] == "ACCEPT"
    recorded = entry("manifest:activated")
    assert recorded.actor == "user:2"
    assert recorded.payload["reason"] == "reviewed"
    assert recorded.payload["solo"] is False
    states = [
        manifest_versions.state_of(old, active_id=agent.active_manifest_id)
        for old in Manifest.objects.order_by("version")
    ]
    assert states == [ManifestState.SUPERSEDED, ManifestState.ACTIVE]


def test_the_agent_is_told(desk: factories.Desk) -> None:
    agent_events.begin(agent=desk.agent)
    drafted(text_of())
    activated()
    agent_events.read(agent=desk.again(), after=0)

    (told,) = AgentEvent.objects.filter(agent=desk.agent, event_type="MANIFEST_ACTIVATED")
    assert b'"version":"1.5.0"' in bytes(told.body)


def test_its_author_may_not_where_another_admin_could(desk: factories.Desk) -> None:
    ada = factories.user("ada", "admin")
    factories.user("alan", "admin")
    drafted(text_of(), by=f"user:{ada.pk}")

    assert refused(activated(by=f"user:{ada.pk}")) == (403, "SEPARATION_OF_DUTY")
    assert in_force(desk) == "1.4.0"


def test_the_only_admin_may_and_it_is_recorded(desk: factories.Desk) -> None:
    ada = factories.user("ada", "admin")
    drafted(text_of(), by=f"user:{ada.pk}")

    answer = activated(by=f"user:{ada.pk}")

    assert isinstance(answer, Manifest)
    assert answer.solo
    assert entry("manifest:activated").payload["solo"] is True


def test_a_draft_whose_base_moved_is_looked_at_again(desk: factories.Desk) -> None:
    drafted(text_of("1.5.0"))
    drafted(text_of("1.6.0"))
    assert isinstance(activated("1.5.0"), Manifest)

    assert refused(activated("1.6.0")) == (409, "MANIFEST_MOVED")
    assert isinstance(activated("1.6.0", seen="1.5.0"), Manifest)


def test_a_version_comes_into_force_once_and_never_after_a_later_one(desk: factories.Desk) -> None:
    drafted(text_of("1.5.0"))
    drafted(text_of("1.6.0"))
    activated("1.6.0")

    assert refused(activated("1.5.0", seen="1.6.0")) == (409, "MANIFEST_OVERTAKEN")
    assert refused(activated("1.6.0", seen="1.6.0")) == (409, "MANIFEST_ACTIVE")
    assert refused(activated("1.4.0", seen="1.6.0")) == (409, "MANIFEST_SUPERSEDED")
    assert refused(activated("9.9.9", seen="1.6.0")) == (404, "NOT_FOUND")
    assert refused(activated("9.9\x00", seen="1.6.0")) == (404, "NOT_FOUND")


def test_a_draft_that_a_new_kind_has_made_unsound_stays_a_draft(desk: factories.Desk) -> None:
    drafted(text_of())
    limits = [{"id": "max_units", "value": "params.quantity", "limit": "manifest.limits.max_units"}]
    factories.policy_kind(gate_cases.kind(version="1.3.0", limits=limits))

    answer = activated()
    assert refused(answer) == (409, "MANIFEST_UNSOUND")
    assert isinstance(answer, Problem)
    assert answer.detail.startswith("limits.max_units is not set")


@pytest.mark.parametrize("reason", ["", "  ", "x" * 501, "a\x00b"])
def test_activating_and_discarding_need_a_reason(desk: factories.Desk, reason: str) -> None:
    drafted(text_of())

    assert refused(activated(reason=reason)) == (422, "REASON_MISSING")
    assert refused(discarded(reason=reason)) == (422, "REASON_MISSING")
    assert in_force(desk) == "1.4.0"


def test_a_discarded_draft_stays_and_never_comes_into_force(desk: factories.Desk) -> None:
    row = drafted(text_of())

    assert isinstance(discarded(), Manifest)
    row.refresh_from_db()
    active_id = desk.again().active_manifest_id
    assert manifest_versions.state_of(row, active_id=active_id) is ManifestState.DISCARDED
    assert (row.discarded_by, row.reason) == ("user:1", "not needed")
    assert entry("manifest:discarded").payload["reason"] == "not needed"
    assert refused(activated()) == (409, "MANIFEST_DISCARDED")
    assert refused(discarded()) == (409, "MANIFEST_NOT_A_DRAFT")
    checked = manifests.check(agent=desk.again(), text=text_of())
    assert checked.remarks[0].message == "must be higher than 1.5.0, the highest so far"


def test_a_version_in_force_cannot_be_discarded(desk: factories.Desk) -> None:
    assert refused(discarded("1.4.0")) == (409, "MANIFEST_NOT_A_DRAFT")


def test_a_retired_agent_gets_no_manifest(desk: factories.Desk) -> None:
    drafted(text_of())
    Agent.objects.update(status=AgentStatus.RETIRED)

    answer = manifests.draft(tenant="default", agent_id="trader", text=text_of("1.6.0"), actor="user:1")
    assert refused(answer) == (409, "AGENT_RETIRED")
    assert refused(activated()) == (409, "AGENT_RETIRED")


def test_an_unknown_agent_is_a_problem() -> None:
    answer = manifests.draft(tenant="default", agent_id="ghost", text="{}", actor="user:1")
    assert refused(answer) == (404, "NOT_FOUND")
    assert refused(activated()) == (404, "NOT_FOUND")


def test_each_version_has_the_one_in_force_before_it(desk: factories.Desk) -> None:
    drafted(text_of("1.5.0"))
    drafted(text_of("1.6.0"))
    discarded("1.6.0")
    activated("1.5.0")
    drafted(text_of("1.7.0"))
    never = Manifest.objects.create(
        agent=desk.agent,
        version="0.1.0",
        body=b"{}",
        digest="",
        created_at=clock.now().replace(year=2000),
        created_by="user:1",
        discarded_at=clock.now(),
    )

    rows = list(Manifest.objects.all())
    found = manifest_versions.list_predecessors(agent=desk.again(), rows=rows)

    named = {row.version: (old := found[row.pk]) and old.version for row in rows}
    assert named == {"1.4.0": None, "1.5.0": "1.4.0", "1.6.0": "1.4.0", "1.7.0": "1.5.0", never.version: None}


@pytest.mark.parametrize("column", ["body", "created_by"])
def test_a_draft_that_was_changed_in_the_database_is_not_activated(desk: factories.Desk, column: str) -> None:
    """Neither what its author did not write, nor by the author under another name."""
    row = drafted(text_of(limits={"max_notional_cents": 111}))
    if column == "body":
        forged = bytes(row.body).replace(b":111", b":999")
        Manifest.objects.filter(pk=row.pk).update(body=forged, digest=canonical.digest(forged))
    else:
        Manifest.objects.filter(pk=row.pk).update(created_by="user:2")
    assert refused(activated(by="user:2" if column == "body" else "user:1")) == (409, "TAMPERED")
    assert in_force(desk) == "1.4.0"
