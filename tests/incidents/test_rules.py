"""Rules that open incidents: what they count, what joins, and what never counts."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from audit.models import LedgerEntry, Tree
from runtime.contracts.incident import IncidentRule, IncidentState, Scope, Severity
from runtime.contracts.problem import Problem
from runtime.core import clock
from runtime.incidents.models import Incident, IncidentRuleRow, RuleCursor, RuleSighting
from runtime.incidents.services import incident_rules, rule_rounds
from runtime.kernel import incident_matching
from runtime.kernel.incident_matching import Seen
from runtime.maintenance.services import sealing, sweeper
from tests.support import factories, incident_story, ledger_tampering

pytestmark = pytest.mark.django_db


def titles() -> list[str]:
    return list(Incident.objects.order_by("opened_at", "pk").values_list("title", flat=True))


def test_nothing_opens_where_no_rule_is_in_force() -> None:
    incident_rules.draft(tenant="default", document=incident_story.rule(), actor="system")
    incident_story.refuse(times=5)
    assert incident_story.walk() == 0
    assert not Incident.objects.exists()
    assert not RuleCursor.objects.exists()


def test_a_crossing_opens_one_and_later_matches_join_it() -> None:
    incident_story.activate(incident_story.rule())
    incident_story.refuse()
    assert incident_story.walk() == 0
    assert RuleSighting.objects.count() == 1
    incident_story.refuse()
    assert incident_story.walk() == 1
    incident_story.refuse(times=3)
    assert incident_story.walk() == 0
    incident = Incident.objects.get()
    assert (incident.title, incident.severity, incident.sightings) == ("Refused twice: trader", "SEV3", 5)
    assert incident_story.kinds(incident) == ["incident:opened", "incident:joined"]
    assert not RuleSighting.objects.exists()
    assert rule_rounds.run() == 0
    assert ledger_tampering.differences() == []


def test_each_agent_is_counted_on_its_own() -> None:
    incident_story.activate(incident_story.rule())
    for agent in ("ann", "bob", "ann", "cid", "bob"):
        incident_story.refuse(agent)
    assert incident_story.walk() == 2
    assert sorted(titles()) == ["Refused twice: ann", "Refused twice: bob"]


def test_after_it_is_resolved_a_crossing_opens_another() -> None:
    olivia = factories.user("olivia").pk
    incident_story.activate(incident_story.rule())
    incident_story.refuse(times=2)
    incident_story.walk()
    first = Incident.objects.get()
    assert not isinstance(incident_story.move(first, IncidentState.MITIGATED, olivia), Problem)
    incident_story.refuse()
    assert incident_story.walk() == 0
    assert not isinstance(incident_story.move(first, IncidentState.RESOLVED, olivia), Problem)
    incident_story.refuse(times=2)
    assert incident_story.walk() == 1
    assert Incident.objects.count() == 2
    again = incident_story.move(first, IncidentState.OPEN, olivia)
    assert isinstance(again, Problem)
    assert "another incident" in again.detail
    assert ledger_tampering.differences() == []


def test_what_is_older_than_the_period_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    incident_story.activate(incident_story.rule(within_s=60))
    began = clock.now()
    for minutes in (0, 2, 4):
        monkeypatch.setattr(clock, "now", lambda at=began + timedelta(minutes=minutes): at)
        incident_story.refuse()
        assert incident_story.walk() == 0
        assert RuleSighting.objects.count() == 1
    monkeypatch.setattr(clock, "now", lambda: began + timedelta(minutes=4, seconds=30))
    incident_story.refuse()
    assert incident_story.walk() == 1
    assert Incident.objects.get().sightings == 2


def test_a_group_that_is_never_seen_again_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    incident_story.activate(incident_story.rule(within_s=60))
    began = clock.now()
    monkeypatch.setattr(clock, "now", lambda: began)
    for number in range(3):
        incident_story.refuse(f"agent-{number}")
    incident_story.walk()
    assert RuleSighting.objects.count() == 3
    monkeypatch.setattr(clock, "now", lambda: began + timedelta(minutes=2))
    incident_story.refuse("another")
    incident_story.walk()
    assert list(RuleSighting.objects.values_list("group_key", flat=True)) == ["another"]


def test_what_was_before_the_activation_does_not_count() -> None:
    incident_story.refuse(times=5)
    incident_story.walk()
    incident_story.activate(incident_story.rule())
    incident_story.activate(incident_story.rule(name="other", times=1))
    assert incident_story.walk() == 0
    incident_story.refuse()
    assert incident_story.walk() == 1
    assert Incident.objects.get().rule_name == "other"


def test_what_came_while_no_rule_was_in_force_is_passed_over() -> None:
    row = incident_story.activate(incident_story.rule())
    incident_story.walk()
    given: dict[str, Any] = {"tenant": "default", "name": row.name, "version": row.version, "actor": "user:1"}
    assert not isinstance(incident_rules.switch_off(reason="Off.", **given), Problem)
    incident_story.refuse(times=5)
    assert incident_story.walk() == 0
    assert not isinstance(incident_rules.activate(reason="On.", **given), Problem)
    assert incident_story.walk() == 0
    assert not Incident.objects.exists()
    cursor, tree = RuleCursor.objects.get(), Tree.objects.get()
    assert cursor.next_leaf == tree.size


def test_a_flow_that_matches_is_linked_with_its_agent_and_its_escalation() -> None:
    desk = factories.desk()
    incident_story.activate(
        incident_story.rule(kinds=("escalation:opened",), times=1, policy_kind="ADJUST_POSITION")
    )
    first, second = desk.escalate(), desk.escalate()
    assert incident_story.walk() == 1
    incident = Incident.objects.get()
    found = set(incident.links.values_list("kind", "ref"))
    assert found == {
        ("AGENT", desk.agent.agent_id),
        *(("FLOW", str(each.flow_id)) for each in (first, second)),
        *(("ESCALATION", str(each.pk)) for each in (first, second)),
    }
    assert incident.sightings == 2
    assert ledger_tampering.differences() == []


def test_no_more_is_linked_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_rounds, "MOST_LINKED", 3)
    desk = factories.desk()
    incident_story.activate(incident_story.rule(kinds=("flow:opened",), times=1))
    for _ in range(4):
        desk.open()
    incident_story.walk()
    incident = Incident.objects.get()
    assert (incident.links.count(), incident.sightings) == (3, 4)


def test_a_long_tree_is_walked_in_bounded_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_rounds, "BATCH", 5)
    incident_story.activate(incident_story.rule(times=20))
    incident_story.refuse(times=23)
    assert incident_story.walk() == 1
    assert Incident.objects.get().sightings == 23
    with CaptureQueriesContext(
        connection,
    ) as asked:
        assert rule_rounds.run() == 0
    assert not [query for query in asked if "audit_ledgerentry" in query["sql"]]


def test_a_rule_whose_row_was_changed_counts_nothing() -> None:
    row = incident_story.activate(incident_story.rule())
    other = incident_story.rule(times=1, severity=Severity.SEV1)
    IncidentRuleRow.objects.filter(pk=row.pk).update(body=other.to_bytes(), digest=other.digest)
    incident_story.refuse(times=3)
    assert incident_story.walk() == 0
    assert not Incident.objects.exists()
    assert any("incident rule refusals 1" in each.detail for each in ledger_tampering.differences())


def test_the_sweeper_runs_the_rules() -> None:
    incident_story.activate(incident_story.rule(times=1))
    incident_story.refuse()
    sealing.seal_now()
    assert sweeper.sweep().incidents == 1


def test_the_author_does_not_activate_what_he_wrote_and_another_admin_does() -> None:
    ann, bob = (factories.user(name, "admin").pk for name in ("ann", "bob"))
    row = incident_rules.draft(tenant="default", document=incident_story.rule(), actor=f"user:{ann}")
    given: dict[str, Any] = {"tenant": "default", "name": row.name, "version": row.version, "reason": "x"}
    own = incident_rules.activate(actor=f"user:{ann}", **given)
    assert isinstance(own, Problem)
    assert own.code == "SEPARATION_OF_DUTY"
    assert not isinstance(incident_rules.activate(actor=f"user:{bob}", **given), Problem)
    again = incident_rules.activate(actor=f"user:{bob}", **given)
    assert isinstance(again, Problem)
    assert again.code == "INCIDENT_RULE_NOT_IN_THAT_STATE"
    assert ledger_tampering.differences() == []


def test_another_version_takes_the_place_of_the_one_before() -> None:
    incident_story.activate(incident_story.rule())
    incident_story.refuse()
    incident_story.walk()
    incident_story.activate(incident_story.rule(times=3))
    assert list(IncidentRuleRow.objects.order_by("version").values_list("state", flat=True)) == [
        "OFF",
        "ACTIVE",
    ]
    assert not RuleSighting.objects.exists()
    incident_story.refuse(times=2)
    assert incident_story.walk() == 0
    incident_story.refuse()
    assert incident_story.walk() == 1
    kinds = list(LedgerEntry.objects.filter(kind__startswith="incident_rule").values_list("kind", flat=True))
    assert kinds.count("incident_rule:ended") == 1
    assert ledger_tampering.differences() == []


def test_the_usual_rules_are_added_once_and_stay_off_when_switched_off() -> None:
    usual: dict[str, Any] = {"tenant": "default", "actor": "system"}
    assert incident_rules.add_usual(activates=True, **usual) == len(incident_rules.USUAL)
    off: dict[str, Any] = {"name": "agent-silent", "version": 1, "reason": "Noise."}
    assert not isinstance(incident_rules.switch_off(**off, **usual), Problem)
    assert incident_rules.add_usual(activates=True, **usual) == 0
    assert IncidentRuleRow.objects.get(name="agent-silent").state == "OFF"
    assert IncidentRuleRow.objects.filter(state="ACTIVE").count() == len(incident_rules.USUAL) - 1
    assert ledger_tampering.differences() == []


@pytest.mark.parametrize(
    ("changes", "payload", "expected"),
    [
        ({}, {}, True),
        ({"reason": "A"}, {"reason": "A"}, True),
        ({"reason": "A"}, {"reasons": [{"code": "B"}, {"code": "A"}]}, True),
        ({"reason": "A"}, {"codes": ["A"]}, True),
        ({"reason": "A"}, {"code": "B"}, False),
        ({"agent_id": "trader"}, {}, True),
        ({"agent_id": "other"}, {}, False),
        ({"policy_kind": "KIND"}, {}, True),
        ({"policy_kind": "OTHER"}, {}, False),
        ({"impact": "CRITICAL"}, {"impact": "CRITICAL"}, True),
        ({"impact": "CRITICAL"}, {}, False),
        ({"where": ("contradicts",)}, {"contradicts": "user:7"}, True),
        ({"where": ("contradicts",)}, {"contradicts": None}, False),
        ({"where": ("result=FAILED", "number=2")}, {"result": "FAILED", "number": 2}, True),
        ({"where": ("result=FAILED",)}, {"result": "SUCCEEDED"}, False),
        ({"where": ("solo=true",)}, {"solo": True}, True),
        ({"kinds": ("note:written",)}, {}, False),
    ],
    ids=str,
)
def test_what_matches(changes: dict[str, Any], payload: dict[str, Any], expected: bool) -> None:
    seen = Seen(kind="request:refused", payload=payload, dfid="d", agent_id="trader", policy_kind="KIND")
    assert incident_matching.matches(incident_story.rule(**changes), seen) is expected


def test_a_rule_counts_by_what_it_says() -> None:
    seen = Seen(kind="request:refused", payload={}, dfid="d", agent_id="trader")
    groups = {scope: incident_matching.group_of(incident_story.rule(per=scope), seen) for scope in Scope}
    assert groups == {Scope.EVERYTHING: "", Scope.AGENT: "trader", Scope.FLOW: "d"}
    of_nothing = Seen(kind="request:refused", payload={})
    assert incident_matching.group_of(incident_story.rule(), of_nothing) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"kinds": ("incident:opened",)},
        {"kinds": ("no:kind",)},
        {"kinds": ()},
        {"name": "Has Capitals"},
        {"times": 0},
        {"within_s": 10**9},
        {"where": ("not a field=1",)},
        {"title": ""},
    ],
    ids=str,
)
def test_a_rule_that_makes_no_sense_is_none(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        incident_story.rule(**changes)


def test_a_rule_is_read_as_it_was_written() -> None:
    for document in incident_rules.USUAL:
        assert IncidentRule.from_bytes(document.to_bytes()) == document
