"""A version of a kind from its text to its place in force: checked, drafted, activated, or discarded."""

import json
from typing import Any

import pytest
from django.contrib.auth.models import User

from audit import canonical
from audit.models import LedgerEntry
from runtime.contracts import pack
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.problem import Problem
from runtime.contracts.states import KindState
from runtime.core import clock
from runtime.registry.models import PolicyKind, Target
from runtime.registry.queries import kind_versions, version_states
from runtime.registry.services import document_writing, kinds
from runtime.resources.services import resources
from tests.support import factories, gate_cases

pytestmark = pytest.mark.django_db
KIND = "ADJUST_POSITION"


@pytest.fixture
def ada() -> str:
    return f"user:{factories.user('ada', 'admin').pk}"


@pytest.fixture
def alan() -> str:
    return f"user:{factories.user('alan', 'admin').pk}"


@pytest.fixture(autouse=True)
def ground() -> None:
    """The plain kind 1.2.0 in force, and the target that it names."""
    Target.objects.create(
        tenant=factories.TENANT, name="broker", base_url="http://127.0.0.1:1", configured_at=clock.now()
    )
    factories.policy_kind(gate_cases.kind())


def text(**fields: Any) -> str:
    return document_writing.as_yaml(gate_cases.kind(**{"version": "1.3.0", **fields}))


def drafted(actor: str, **fields: Any) -> PolicyKind:
    row = kinds.draft(tenant=factories.TENANT, text=text(**fields), actor=actor, kind=KIND)
    assert isinstance(row, PolicyKind), row
    return row


def refused(answer: PolicyKind | Problem) -> tuple[int, str]:
    assert isinstance(answer, Problem), answer
    return answer.status, answer.code


def activate(actor: str, version: str, seen: str, *, reason: str = "Agreed.") -> PolicyKind | Problem:
    return kinds.activate(
        tenant=factories.TENANT, kind=KIND, version=version, seen_active=seen, reason=reason, actor=actor
    )


def discard(actor: str, version: str, reason: str = "A typing error.") -> PolicyKind | Problem:
    return kinds.discard(tenant=factories.TENANT, kind=KIND, version=version, reason=reason, actor=actor)


def remarks(given: str, kind: str = KIND) -> list[tuple[int, str, str, bool]]:
    checked = kinds.check(tenant=factories.TENANT, text=given, kind=kind)
    return [(item.line, item.field, item.message, item.is_wrong) for item in checked.remarks]


def recorded() -> list[tuple[str, str, dict[str, Any]]]:
    rows = LedgerEntry.objects.filter(stream="system", kind__startswith="kind:").order_by("seq")
    return [(row.kind, row.actor, canonical.decode(bytes(row.body))["payload"]) for row in rows]


def states_now() -> dict[str, KindState]:
    return {row.version: version_states.state_of(row) for row in PolicyKind.objects.all()}


def test_a_draft_is_stored_hashed_and_rules_nothing(ada: str) -> None:
    row = drafted(ada, title="Another title")
    assert row.digest == canonical.digest(bytes(row.body))
    assert KindDocument.from_bytes(bytes(row.body)).title == row.title == "Another title"
    assert (row.created_by, row.active, row.activated_at) == (ada, False, None)
    assert recorded()[2:] == [
        ("kind:registered", ada, {"policy_kind": KIND, "version": "1.3.0", "digest": row.digest})
    ]
    assert states_now() == {"1.2.0": KindState.ACTIVE, "1.3.0": KindState.DRAFT}
    assert [item.version for item in kind_versions.list_drafts(tenant=factories.TENANT)] == ["1.3.0"]


def test_the_same_draft_sent_twice_is_one(ada: str, alan: str) -> None:
    assert drafted(ada).pk == drafted(ada).pk
    assert [kind for kind, actor, _ in recorded() if actor == ada] == ["kind:registered"]
    again = kinds.draft(tenant=factories.TENANT, text=text(), actor=alan, kind=KIND)
    assert refused(again) == (422, "KIND_UNSOUND")


def test_the_same_version_with_other_content_is_refused(ada: str) -> None:
    row = drafted(ada)
    answer = kinds.draft(tenant=factories.TENANT, text=text(title="Other"), actor=ada, kind=KIND)
    assert isinstance(answer, Problem)
    assert [(item.pointer, item.message) for item in answer.violations] == [
        ("version", "1.3.0 is registered already; give the change a new version")
    ]
    assert PolicyKind.objects.get(version="1.3.0").digest == row.digest


def test_a_version_must_be_later_than_every_other(ada: str) -> None:
    drafted(ada)
    assert remarks(text(version="1.2.1")) == [
        (2, "version", "1.3.0 is registered; a new version must be later", True)
    ]


def test_a_new_kind_may_be_drafted_and_activated_in_place_of_nothing(ada: str, alan: str) -> None:
    given = text(kind="REBALANCE", version="1.0.0")
    assert remarks(given) == [
        (1, "kind", "this is the page of ADJUST_POSITION; a new kind has its own", True)
    ]
    row = kinds.draft(tenant=factories.TENANT, text=given, actor=ada)
    assert isinstance(row, PolicyKind)
    done = kinds.activate(
        tenant=factories.TENANT, kind="REBALANCE", version="1.0.0", seen_active="", reason="New.", actor=alan
    )
    assert isinstance(done, PolicyKind)
    assert done.active
    assert recorded()[-1][2]["replaces"] == ""


def test_every_problem_names_its_line_and_field() -> None:
    given = text().replace("risk_tier: T1", "risk_tier: T9\nrisk_teir: T1")
    assert remarks(given) == [
        (4, "risk_tier", "must be 'T0', 'T1', 'T2' or 'T3'", True),
        (5, "risk_teir", "is not a known field", True),
    ]
    ((line, field, message, is_wrong),) = remarks(text(impact="params.nothing > 1 ? 'A' : 'B'"))
    assert text(impact="params.nothing > 1 ? 'A' : 'B'").splitlines()[line - 1].startswith("impact:")
    assert (field, is_wrong) == ("impact", True)
    assert "nothing" in message
    assert remarks("") == [(1, "", "the file is empty", True)]
    assert remarks("kind: [") != []
    assert "longer than" in remarks("#" * 200_001)[0][2]


def test_targets_and_resources_must_be_there() -> None:
    steps = [{**gate_cases.KIND["steps"][0], "target": "nowhere"}]
    claims = [{"resource": "cash", "amount": "1"}]
    given = text(steps=steps, claims=claims)
    assert [item[1:3] for item in remarks(given)] == [
        ("steps[0].target", "there is no target named nowhere"),
        ("claims[0].resource", "there is no resource named cash"),
    ]
    stored = pack.PackResource(name="cash", capacity=10, unit="cents")
    resources.store(tenant=factories.TENANT, given=stored, actor="system", at=clock.now())
    assert [item[1] for item in remarks(given)] == ["steps[0].target"]


def test_json_will_do_also_indented_by_tabs() -> None:
    plain = gate_cases.kind(version="1.3.0").model_dump(mode="json", exclude_defaults=True)
    for indent in (None, 2, "\t"):
        assert remarks(json.dumps(plain, indent=indent)) == []


def test_what_is_not_enforced_is_said_and_does_not_stop(ada: str) -> None:
    (remark,) = remarks(text(red_lines=["Never twice"]))
    assert remark[1:] == ("red_lines[0]", "recorded, not enforced", False)
    assert isinstance(drafted(ada, red_lines=["Never twice"]), PolicyKind)


def test_another_admin_activates_and_the_version_before_is_superseded(ada: str, alan: str) -> None:
    row = drafted(ada)
    done = activate(alan, "1.3.0", "1.2.0")
    assert isinstance(done, PolicyKind)
    assert states_now() == {"1.2.0": KindState.SUPERSEDED, "1.3.0": KindState.ACTIVE}
    assert recorded()[-1] == (
        "kind:activated",
        alan,
        {
            "policy_kind": KIND,
            "version": "1.3.0",
            "digest": row.digest,
            "reason": "Agreed.",
            "solo": False,
            "replaces": "1.2.0",
        },
    )
    stored = PolicyKind.objects.get(version="1.3.0")
    assert (stored.activated_by, stored.reason, stored.solo) == (alan, "Agreed.", False)


def test_the_author_may_not_activate_unless_alone(ada: str, alan: str) -> None:
    drafted(ada)
    assert refused(activate(ada, "1.3.0", "1.2.0")) == (403, "SEPARATION_OF_DUTY")
    assert states_now()["1.3.0"] is KindState.DRAFT
    User.objects.filter(username="alan").update(is_active=False)
    assert isinstance(activate(ada, "1.3.0", "1.2.0"), PolicyKind)
    assert recorded()[-1][2]["solo"] is True
    assert PolicyKind.objects.get(version="1.3.0").solo


def test_back_to_an_earlier_version_is_an_activation_too(ada: str, alan: str) -> None:
    drafted(ada)
    activate(alan, "1.3.0", "1.2.0")
    assert isinstance(activate(ada, "1.2.0", "1.3.0", reason="Too strict."), PolicyKind)
    assert states_now() == {"1.2.0": KindState.ACTIVE, "1.3.0": KindState.SUPERSEDED}
    assert recorded()[-1][2]["replaces"] == "1.3.0"


def test_an_activation_holds_only_against_the_version_that_was_seen(ada: str, alan: str) -> None:
    drafted(ada)
    drafted(ada, version="1.4.0")
    assert isinstance(activate(alan, "1.4.0", "1.2.0"), PolicyKind)
    assert refused(activate(alan, "1.3.0", "1.2.0")) == (409, "KIND_MOVED")
    assert refused(activate(alan, "1.3.0", "")) == (409, "KIND_MOVED")
    assert states_now()["1.4.0"] is KindState.ACTIVE


def test_what_is_in_force_or_unknown_cannot_be_activated(alan: str) -> None:
    assert refused(activate(alan, "1.2.0", "1.2.0")) == (409, "KIND_ACTIVE")
    assert refused(activate(alan, "1.2.0", "")) == (409, "KIND_ACTIVE")
    assert refused(activate(alan, "9.9.9", "1.2.0")) == (404, "NOT_FOUND")
    assert kind_versions.lock_versions(tenant=factories.TENANT, kind="A\x00") == []


@pytest.mark.parametrize("reason", ["", "  ", "x" * 501, "a\x00b"])
def test_a_reason_is_needed(ada: str, alan: str, reason: str) -> None:
    drafted(ada)
    assert refused(activate(alan, "1.3.0", "1.2.0", reason=reason)) == (422, "REASON_MISSING")
    assert refused(discard(ada, "1.3.0", reason)) == (422, "REASON_MISSING")


def test_a_discarded_draft_stays_and_its_version_stays_taken(ada: str, alan: str) -> None:
    row = drafted(ada)
    assert isinstance(discard(ada, "1.3.0"), PolicyKind)
    assert states_now()["1.3.0"] is KindState.DISCARDED
    assert recorded()[-1] == (
        "kind:discarded",
        ada,
        {"policy_kind": KIND, "version": "1.3.0", "digest": row.digest, "reason": "A typing error."},
    )
    assert refused(activate(alan, "1.3.0", "1.2.0")) == (409, "KIND_DISCARDED")
    assert refused(discard(ada, "1.3.0")) == (409, "KIND_NOT_A_DRAFT")
    assert refused(discard(ada, "1.2.0")) == (409, "KIND_NOT_A_DRAFT")
    answer = kinds.draft(tenant=factories.TENANT, text=text(title="Other"), actor=ada, kind=KIND)
    assert refused(answer) == (422, "KIND_UNSOUND")
    assert kind_versions.list_drafts(tenant=factories.TENANT) == []


def test_what_it_names_may_have_gone_before_it_is_activated(ada: str, alan: str) -> None:
    drafted(ada)
    Target.objects.all().delete()
    assert refused(activate(alan, "1.3.0", "1.2.0")) == (409, "KIND_UNSOUND")


def test_names_that_no_database_can_compare_are_not_there() -> None:
    assert kind_versions.get_version(tenant=factories.TENANT, kind=KIND, version="1\x00") is None
    assert kind_versions.get_version(tenant=factories.TENANT, kind=KIND, version="1.2.0") is not None


@pytest.mark.parametrize("column", ["body", "created_by"])
def test_a_draft_that_was_changed_in_the_database_is_not_activated(ada: str, alan: str, column: str) -> None:
    """Neither what its author did not write, nor by the author under another name."""
    row = drafted(ada, version="1.5.0")
    forged = bytes(row.body).replace(b'"title":"', b'"title":"Not ')
    columns = {"body": forged, "digest": canonical.digest(forged)} if column == "body" else {column: alan}
    PolicyKind.objects.filter(pk=row.pk).update(**columns)
    in_force = PolicyKind.objects.get(active=True).version
    answer = activate(alan if column == "body" else ada, "1.5.0", in_force)
    assert refused(answer) == (409, "TAMPERED")
    assert PolicyKind.objects.get(active=True).version == in_force
