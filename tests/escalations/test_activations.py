"""What the activation of another version of a kind does to what is under way, and what it leaves alone."""

import pytest
from django.contrib.auth.models import User

from escalations.models import Escalation, Evidence
from escalations.services import deciding, drift_scan
from runtime.contexts.models import Snapshot
from runtime.contracts.manifest import ManifestDocument
from runtime.core import clock
from runtime.flows.models import Flow, Intent, Proposal
from runtime.proposals.queries import gate_facts
from runtime.registry.models import Agent, PolicyKind, Target
from runtime.registry.services import document_writing, kinds
from tests.support import decision_rows, factories, gate_cases

pytestmark = pytest.mark.django_db
KIND = "ADJUST_POSITION"


def put_in_force(version: str = "1.3.0", **fields: object) -> None:
    """A next version as people bring it about: drafted by one admin, activated by another."""
    Target.objects.get_or_create(
        tenant=factories.TENANT,
        name="broker",
        defaults={"base_url": "http://127.0.0.1:1", "configured_at": clock.now()},
    )
    text = document_writing.as_yaml(gate_cases.kind(**{"version": version, "title": "Again", **fields}))
    drafted = kinds.draft(tenant=factories.TENANT, text=text, actor="user:1001", kind=KIND)
    assert isinstance(drafted, PolicyKind), drafted
    active = PolicyKind.objects.get(kind=KIND, active=True)
    done = kinds.activate(
        tenant=factories.TENANT,
        kind=KIND,
        version=version,
        seen_active=active.version,
        reason="Agreed.",
        actor="user:1002",
    )
    assert isinstance(done, PolicyKind), done


def test_open_evidence_gets_one_new_revision_without_anybody_asking(
    desk: factories.Desk, olivia: User
) -> None:
    escalation = desk.escalate()
    seen = factories.decision_request(escalation)
    assert drift_scan.revise_open() == 0
    put_in_force()
    assert drift_scan.revise_open() == 1
    assert drift_scan.revise_open() == 0
    newest = Evidence.objects.filter(escalation=escalation).latest("revision")
    assert (newest.revision, newest.why) == (2, "the active rules changed")
    answer = deciding.decide(
        tenant=factories.TENANT,
        escalation_id=escalation.pk,
        person=factories.person(olivia),
        user=olivia,
        request=seen,
    )
    assert decision_rows.refused(answer)[0] == 409
    assert isinstance(factories.decide(escalation, olivia), deciding.DecisionResult)
    assert Intent.objects.get().proposal.policy_version == "1.3.0"


def test_one_that_cannot_be_judged_keeps_no_other_from_its_revision(desk: factories.Desk) -> None:
    poisoned, other = desk.escalate(), desk.escalate()
    Proposal.objects.filter(escalations=poisoned).update(body=b"{}")
    put_in_force()
    assert drift_scan.revise_open() == 1
    other.refresh_from_db()
    assert other.revision == 2


def test_evidence_under_rules_that_now_reject_shows_what_cannot_be_lifted(
    desk: factories.Desk, olivia: User
) -> None:
    escalation = desk.escalate()
    rule = {"id": "R_SMALL", "require": "params.notional_cents < 100000", "message": "Too large"}
    put_in_force(rules=[*gate_cases.KIND["rules"], rule])
    assert drift_scan.revise_open() == 1
    assert decision_rows.refused(factories.decide(escalation, olivia)) == (409, "NOT_LIFTABLE")


def test_a_kind_that_nobody_waits_for_revises_nothing(desk: factories.Desk) -> None:
    desk.escalate()
    factories.policy_kind(gate_cases.kind(kind="REBALANCE"))
    assert drift_scan.revise_open() == 0


def test_another_manifest_is_another_bundle_too(desk: factories.Desk) -> None:
    escalation = desk.escalate()
    factories.activate(desk.agent, gate_cases.manifest(version="1.5.0", policy_kinds=[KIND]))
    assert drift_scan.revise_open() == 1
    assert Escalation.objects.get(pk=escalation.pk).revision == 2


def test_a_context_that_was_issued_before_stays_good(desk: factories.Desk) -> None:
    flow = desk.open()
    before = list(Snapshot.objects.values_list("context_ref", "expires_at"))
    put_in_force()
    assert list(Snapshot.objects.values_list("context_ref", "expires_at")) == before
    assert desk.propose(flow)["verdict"] == "ACCEPT"
    assert Proposal.objects.get().policy_version == "1.3.0"


def test_a_fact_that_only_the_new_version_asks_for_needs_a_fresh_context(desk: factories.Desk) -> None:
    factories.write("desk.mood", "CALM")
    flow = desk.open()
    put_in_force(depends_on=[*gate_cases.KIND["depends_on"], "desk.mood"])
    assert [reason["code"] for reason in desk.propose(flow)["reasons"]] == ["STALE_CONTEXT"]
    assert desk.propose(desk.look(flow.dfid))["verdict"] == "ACCEPT"


def test_what_was_accepted_before_keeps_its_intent_and_its_version(desk: factories.Desk) -> None:
    desk.propose(desk.open())
    before = list(Intent.objects.values())
    put_in_force()
    assert list(Intent.objects.values()) == before
    assert Proposal.objects.get().policy_version == "1.2.0"


def test_the_digests_of_the_rules_in_force_are_those_of_the_gate(desk: factories.Desk) -> None:
    agent = desk.again()
    rules = gate_facts.get_rules(agent=agent, kind_name=KIND)
    assert isinstance(rules.manifest, ManifestDocument)
    flow, bare = Flow(agent=agent), Flow(agent=Agent(pk=0, tenant=factories.TENANT))
    found = gate_facts.list_bundle_digests([(flow, KIND), (flow, "NOT_THERE"), (bare, KIND)])
    assert found[(flow.pk, KIND)] == rules.digest
    assert found[(flow.pk, "NOT_THERE")] == rules.model_copy(update={"kind": None}).digest
    assert found[(bare.pk, KIND)] == rules.model_copy(update={"manifest": None}).digest
