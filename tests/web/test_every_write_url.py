"""Every address that could write, tried by everybody who may not: nothing happens."""

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import Group, User
from django.http import HttpResponse
from django.test import Client
from django.test.client import MULTIPART_CONTENT
from django.urls import URLPattern, URLResolver, get_resolver

from audit.models import ClassKey, DecisionRecord, LedgerEntry, RecordFeedback
from escalations.contracts import Action
from escalations.models import Decision, EffectStatement, Escalation, Note, NotificationRoute
from runtime.contracts.incident import LinkKind
from runtime.contracts.reasons import Reason
from runtime.core import clock
from runtime.execution.models import HumanTask
from runtime.flows.models import Attempt, Flow, Intent
from runtime.guards.models import Guard, Review
from runtime.incidents.models import Incident, IncidentRuleRow
from runtime.incidents.services import incidents
from runtime.incidents.services.incidents import Wanted
from runtime.maintenance.models import LegalHold, PayloadRound, ReplayRun
from runtime.maintenance.services import replay_runs
from runtime.outward.models import Receiver
from runtime.registry.models import Agent, Key, Manifest, OwnerChange, PolicyKind, Ruleset, Stop
from runtime.registry.models.calibration_maps import CalibrationMap
from runtime.registry.services import credentials, kinds, manifests, rulesets
from runtime.state.models import Fact
from tests.escalations.test_replacing import called
from tests.support import (
    calibration_story,
    event_receivers,
    factories,
    gate_cases,
    guard_rounds,
    hold_story,
    incident_story,
    key_story,
    notice_receivers,
    underwriting,
)

METHODS = ("POST", "PUT", "PATCH", "DELETE")
REFUSED = frozenset({401, 403, 404, 405, 410})
# What each identity is for: the addresses at which it is the right one.
FOR_EVERYBODY = ("accounts/login/", "accounts/logout/")
FOR_SIGNED_IN = (
    "accounts/reauthenticate/",
    "accounts/password/change/",
    "account/sessions/end/",
    "conformance/run/",
    "escalations/views/",
    "flows/<uuid:dfid>/evidence/start/",
    "tour/",
)
FOR_AUDITORS = ("replay/start/", "replay/<uuid:run_id>/cancel/")
FOR_AGENT_KEYS = ("api/v1/handshake",)
FOR_FEED_KEYS = ("api/v1/state/facts/",)


def addresses(resolver: URLResolver | None = None, prefix: str = "") -> Iterator[str]:
    """Every route of the URL map with its parts filled in: real ids where there are real rows."""
    for entry in (resolver or get_resolver()).url_patterns:
        route = prefix + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from addresses(entry, route)
        elif isinstance(entry, URLPattern):
            yield route


@pytest.fixture
def standing(db: None) -> dict[str, str]:
    """An open escalation, its flow and agent, so that a hole in the wall would let something through."""
    desk = factories.desk()
    escalation = desk.escalate()
    kind, manifest = gate_cases.kind(version="1.0.0"), gate_cases.manifest(version="1.0.0")
    kinds.VersionedKind(factories.TENANT, kind.kind).register(kind, actor="system", at=clock.now())
    manifests.AgentManifest(desk.agent).register(manifest, actor="system", at=clock.now())
    ruleset = underwriting.ruleset()
    rulesets.VersionedRuleset(factories.TENANT, ruleset.ruleset).register(
        ruleset, actor="system", at=clock.now()
    )
    calibration_story.draft(desk.agent.agent_id)
    guard_rounds.configure()
    review = guard_rounds.flagged(desk)
    left = called(desk, "UNKNOWN", Reason.IN_DOUBT)
    factories.decide(left, factories.user("who-aborted"), Action.ABORT)
    change = OwnerChange.objects.create(
        agent=desk.agent, owner_before="a", owner_after="b", asked_by="user:1", asked_at=clock.now()
    )
    lead = factories.user("lead").pk
    incident = incident_story.open_by(lead, links=[Wanted(LinkKind.AGENT, desk.agent.agent_id)])
    soon = clock.now().date()
    given: dict[str, Any] = {"tenant": factories.TENANT, "incident_id": incident.pk, "author": lead}
    assert incidents.add_action(text="Fix it", owner=lead, due_on=soon, **given) is None
    run = replay_runs.start(tenant=factories.TENANT, actor="user:1")
    assert isinstance(run, ReplayRun)
    return {
        "run_id": str(run.pk),
        "task_id": str(_task(left).pk),
        "incident_id": str(incident.pk),
        "class_key": str(key_story.retired("parameters").pk),
        "hold_id": str(hold_story.place(escalation.flow_id).pk),
        "link": str(incident.links.get().pk),
        "action_id": str(incident.actions.get().pk),
        "intent_id": str(left.intent_id),
        "number": "1",
        "escalation_id": str(escalation.pk),
        "review_id": str(review.pk),
        "guard_id": review.asked_by,
        "dfid": str(escalation.flow_id),
        "record_id": DecisionRecord.objects.filter(dfid=escalation.flow_id).latest("pk").record_id,
        "agent_id": desk.agent.agent_id,
        "kind": "ADJUST_POSITION",
        "ruleset": "motor-underwriting",
        "seq": "1",
        "path": "market.state",
        "version": "1.0.0",
        "name": "broker",
        "server": "notes",
        "token": "1-zzzzzz-0123456789abcdef0123456789abcdef",
        "key_id": desk.session.key.key_id,
        "change": str(change.pk),
        "receiver_id": str(event_receivers.add("https://hooks.example.com/events").pk),
        "route_id": str(notice_receivers.add("https://hooks.example.com/dir").route.pk),
        "group": str(Group.objects.get_or_create(name="desk")[0].pk),
        "user": str(factories.user("member", groups=("desk",)).pk),
    }


def _task(asked: Escalation) -> HumanTask:
    """An open task, beside the intent that somebody was asked about."""
    at = clock.now()
    return HumanTask.objects.create(
        tenant=asked.tenant,
        intent_id=asked.intent_id or UUID(int=0),
        number=99,
        step="approve",
        direction="FORWARD",
        group="operator",
        body=b"{}",
        task_hash="0" * 64,
        opened_at=at,
        deadline_at=at + timedelta(hours=1),
    )


def filled(route: str, standing: dict[str, str]) -> str:
    plain = route.replace("^", "").replace("$", "").replace("\\Z", "")
    return "/" + re.sub(r"<(?:\w+:)?(\w+)>", lambda part: standing.get(part[1], "x"), plain)


def snapshot() -> dict[str, object]:
    """Everything that a write could have changed."""
    return {
        "flows": list(Flow.objects.order_by("pk").values_list("pk", "state", "version")),
        "intents": Intent.objects.count(),
        "tasks": list(HumanTask.objects.values_list("pk", "state")),
        "decisions": Decision.objects.count(),
        "owners": list(OwnerChange.objects.values_list("agreed_at", "dropped_at")),
        "escalations": list(Escalation.objects.values_list("pk", "state", "claimed_by")),
        "stops": Stop.objects.count(),
        "agents": list(
            Agent.objects.order_by("pk").values_list(
                "pk", "status", "stopped_at", "owner", "mission", "active_manifest"
            )
        ),
        "manifests": list(
            Manifest.objects.order_by("pk").values_list("version", "activated_at", "discarded_at")
        ),
        "keys": list(Key.objects.order_by("pk").values_list("key_id", "revoked_at")),
        "facts": list(Fact.objects.order_by("path").values_list("path", "version")),
        "kinds": list(
            PolicyKind.objects.order_by("pk").values_list("pk", "version", "active", "discarded_at")
        ),
        "maps": list(CalibrationMap.objects.values_list("version", "active", "discarded_at")),
        "rulesets": list(Ruleset.objects.values_list("version", "active", "discarded_at")),
        "users": list(User.objects.order_by("pk").values_list("pk", "is_active", "password")),
        "groups": list(Group.objects.order_by("pk").values_list("name", "user")),
        "reviews": list(Review.objects.values_list("pk", "state")),
        "calls": list(Attempt.objects.order_by("pk").values_list("pk", "effect")),
        "incidents": list(Incident.objects.values_list("pk", "state", "title", "lead")),
        "of_incidents": LedgerEntry.objects.filter(stream__startswith="incident:").count(),
        "payload_keys": list(ClassKey.objects.order_by("pk").values_list("pk", "retired_at", "destroyed_at")),
        "payload_rounds": PayloadRound.objects.count(),
        "holds": list(LegalHold.objects.values_list("pk", "released_at")),
        "incident_rules": IncidentRuleRow.objects.count(),
        "questions": LedgerEntry.objects.filter(kind="status_query:started").count(),
        "statements": EffectStatement.objects.count(),
        "notes": Note.objects.count(),
        "replay_runs": list(ReplayRun.objects.values_list("pk", "state")),
        "feedback": RecordFeedback.objects.count(),
        "guards": list(Guard.objects.values_list("pk", "enabled")),
        "receivers": list(Receiver.objects.values_list("pk", "state", "place", "next_leaf")),
        "routes": list(NotificationRoute.objects.values_list("pk", "enabled", "deleted_at")),
    }


def try_all(standing: dict[str, str], client: Client, own: tuple[str, ...], headers: dict[str, str]) -> None:
    before = snapshot()
    body = {
        "action": "ABORT",
        "version": "1",
        "evidence_hash": Escalation.objects.get(pk=standing["escalation_id"]).evidence_hash,
        "effect": "NOT_HAPPENED",
        "impact": "LOW_IMPACT",
        "justification": "as an intruder",
        "reason": "as an intruder",
        "seen_active": "1.2.0",
        "result": "CONFIRMED",
        "note": "as an intruder",
        "text": "as an intruder",
        "assessment": "WRONG",
        "form_id": "01890000-0000-7000-8000-000000000000",
        "takeover_reason": "as an intruder",
        "handover_note": "as an intruder",
        "id": standing["review_id"],
        "seen": "ACTIVE",
        "to_leaf": "0",
        "from_leaf": "0",
        "status": "SUSPENDED",
        "agent_id": "intruder",
        "url": "https://intruder.example/hook",
        "role": "EXECUTOR",
        "owner": "operator",
        "mission": "Trade.",
        "document": gate_cases.manifest(version="9.0.0").to_bytes().decode(),
    }
    tried = 0
    for route in addresses():
        if route.startswith(own):
            continue
        address = filled(route, standing)
        for method in METHODS:
            send: Callable[..., HttpResponse] = getattr(client, method.lower())
            is_api = address.startswith("/api/")
            answer = send(
                address,
                data='{"value": 1}' if is_api else body,
                content_type="application/json" if is_api or method != "POST" else MULTIPART_CONTENT,
                headers=headers,
            )
            to_sign_in = answer.status_code == 302 and answer["Location"].startswith("/accounts/login/")
            assert answer.status_code in REFUSED or to_sign_in, (method, address, answer.status_code)
            tried += 1
    assert tried > 50
    after = snapshot()
    # A refused decision is recorded in its flow's ledger, which moves the flow's version and nothing else.
    before["flows"] = [(dfid, state) for dfid, state, _ in before["flows"]]  # type: ignore[attr-defined]
    after["flows"] = [(dfid, state) for dfid, state, _ in after["flows"]]  # type: ignore[attr-defined]
    assert after == before


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


def test_a_logged_out_browser_writes_nothing(standing: dict[str, str]) -> None:
    try_all(standing, Client(), FOR_EVERYBODY, {})


def test_an_auditor_writes_nothing_but_replay_runs(standing: dict[str, str]) -> None:
    auditor = User.objects.create_user("ada", password="a long enough phrase")
    auditor.groups.add(Group.objects.get(name="auditor"))
    client = Client()
    client.force_login(auditor)
    try_all(standing, client, FOR_EVERYBODY + FOR_SIGNED_IN + FOR_AUDITORS, {})


def test_somebody_signed_in_without_a_role_writes_nothing(standing: dict[str, str]) -> None:
    client = Client()
    client.force_login(User.objects.create_user("nobody", password="a long enough phrase"))
    try_all(standing, client, FOR_EVERYBODY + FOR_SIGNED_IN, {})


def test_an_agent_key_writes_nothing_but_its_handshake(standing: dict[str, str]) -> None:
    agent_id = standing["agent_id"]
    key = credentials.issue_agent_key(tenant="default", agent_id=agent_id, actor="system")
    assert isinstance(key, credentials.IssuedKey)
    try_all(standing, Client(), FOR_EVERYBODY + FOR_AGENT_KEYS, bearer(key.text))


def test_a_feed_key_writes_nothing_but_its_facts(standing: dict[str, str]) -> None:
    key = credentials.issue_feed_key(tenant="default", feed="prices", prefix="price.", actor="system")
    assert isinstance(key, credentials.IssuedKey)
    try_all(standing, Client(), FOR_EVERYBODY + FOR_FEED_KEYS, bearer(key.text))


def test_an_auditors_key_writes_nothing(standing: dict[str, str]) -> None:
    key = credentials.issue_auditor_key(tenant="default", auditor="regulator", actor="system")
    assert isinstance(key, credentials.IssuedKey)
    try_all(standing, Client(), FOR_EVERYBODY, bearer(key.text))


def test_a_cross_site_form_without_its_token_writes_nothing(standing: dict[str, str]) -> None:
    operator = factories.user("otto", "operator", "admin", "senior")
    client = Client(enforce_csrf_checks=True)
    client.force_login(operator)
    try_all(standing, client, ("api/",), {})
