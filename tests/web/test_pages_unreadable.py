"""What a page does with stored bytes that are not what was recorded, or cannot be read at all."""

from collections.abc import Iterator

import pytest
from django.apps import apps
from django.db import models
from django.test import Client, override_settings

from audit.access.roles import Role
from escalations.models import Escalation
from runtime.contexts.models import Snapshot
from runtime.execution.services import attempting
from runtime.execution.services.attempting import AttemptStatus
from runtime.flows.models import Flow, Intent, Outcome, Proposal, Verdict
from runtime.guards.models import Guard, Review
from runtime.registry.models import Agent, Manifest, PolicyKind, Ruleset, Target
from runtime.state.models import Fact
from runtime.state.services import memory
from tests.support import (
    advised_story,
    calibration_story,
    demo_scenes,
    factories,
    gate_cases,
    guard_rounds,
    incident_story,
    interrupted_flow,
    misbehaving_targets,
    notice_receivers,
    ontology_story,
    talking,
    tool_story,
    trading_desk,
    worlds,
)
from tests.web.test_pages import sign_in

# Bytes that are no JSON, and JSON of another form than any that is stored.
FORGED = (b"\xff{", b"[null]")
# One bad row among many must not close the list of them.
LISTS = (
    "/",
    "/escalations/",
    "/escalations/?show=closed",
    "/escalations/in-doubt/",
    "/flows/",
    "/agents/",
    "/budgets/",
    "/budgets/reservations/",
    "/kinds/",
    "/capabilities/",
    "/conversations/",
    "/memory/",
    "/people/",
    "/reviews/",
    "/reviews/?show=reviewed",
    "/rulesets/",
    "/targets/",
    "/world/",
    "/tasks/",
    "/tools/",
    "/ledger/",
    "/incidents/",
    "/incidents/rules/",
    "/precedents/",
    "/decision-metrics/",
    "/rule-coverage/",
    "/specs/",
)
TAMPERED = "This row does not match the ledger."


ONTOLOGY_VERSIONS = ("1.0.0", "2.0.0")
# Columns of rows that no page shows, or that pages show in tests of their own.
ELSEWHERE = {"AgentEvent", "EffectStatement", "HumanTask", "Question", "StepReceipt"}
# No page shows it, and the database keeps it empty without a window.
NOT_SHOWN = {("Intent", "undo")}


def binary_columns() -> Iterator[tuple[type[models.Model], str]]:
    for model in apps.get_models():
        if model._meta.app_label == "audit" or model.__name__ in ELSEWHERE:
            continue
        for field in model._meta.get_fields():
            if isinstance(field, models.BinaryField) and (model.__name__, field.name) not in NOT_SHOWN:
                yield model, field.name


COLUMNS = [pytest.param(*column, id=f"{column[0].__name__}.{column[1]}") for column in binary_columns()]


@override_settings(DIR_EGRESS_ALLOW=["127.0.0.1"])
def store_everything() -> None:
    """One of each thing that is stored."""
    demo_scenes.leave_in_doubt()
    advised_story.write()
    tool_story.write()
    with misbehaving_targets.stand_in(
        misbehaving_targets.answer(200, b'{"order_id":"o1","status":"FILLED"}')
    ) as target:
        done = trading_desk.open_desk(base_url=target.base_url).accept()
        assert attempting.attempt(done, owner=trading_desk.OWNER).status is AttemptStatus.SUCCEEDED
    notice_receivers.add("https://hooks.example.com/dir")
    guard_rounds.configure()
    scopes = [{"scope": "desk", "access": "READ_WRITE"}]
    desk = factories.desk(manifest=gate_cases.manifest(memory_scopes=scopes), agent_id="second-trader")
    memory.write(agent=desk.agent, scope="desk", key="tip", value="buy", source="web:x", ttl_s=None)
    guard_rounds.flagged(desk)
    incident_story.activate(incident_story.rule())
    calibration_story.write("second-trader")
    assert desk.propose(desk.open(), confidence=0.1)["verdict"] == "ESCALATE"
    ontology_story.write()
    talking.tell()
    interrupted_flow.register()
    interrupted_flow.interrupted(interrupted_flow.desk())


world = worlds.shared(store_everything)


@pytest.fixture
def client(world: None, db: None) -> Client:
    """Somebody who sees everything."""
    return sign_in(Role.ADMIN, Role.AUDITOR, Role.OPERATOR)


def details() -> list[str]:
    """A page for each row that has one."""
    agents = Manifest.objects.values_list("agent__agent_id", "version")
    kinds = PolicyKind.objects.values_list("kind", "version")
    rulesets = Ruleset.objects.values_list("ruleset", "version")
    contexts = Snapshot.objects.values_list("flow_id", "context_ref")
    return [
        *(f"/flows/{dfid}/" for dfid in Flow.objects.values_list("pk", flat=True)),
        *(f"/flows/{dfid}/contexts/{ref}/" for dfid, ref in contexts),
        *(f"/escalations/{pk}/" for pk in Escalation.objects.values_list("pk", flat=True)),
        *(f"/reviews/{pk}/" for pk in Review.objects.values_list("pk", flat=True)),
        *(f"/agents/{name}/" for name, _ in agents),
        *(f"/agents/{name}/calibration/" for name, _ in agents),
        *(f"/agents/{name}/manifests/{version}/" for name, version in agents),
        *(f"/kinds/{name}/?version={version}" for name, version in kinds),
        *(f"/rulesets/{name}/?version={version}" for name, version in rulesets),
        *(f"/world/ontology/?version={version}" for version in ONTOLOGY_VERSIONS),
        *(f"/world/facts/{path}/" for path in Fact.objects.values_list("path", flat=True)[:3]),
        *(f"/tools/{tool_story.SERVER}/?name={name}" for name in ("changed", "gone", "kept", "new")),
    ]


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize(("model", "column"), COLUMNS)
def test_no_page_falls_over(client: Client, model: type[models.Model], column: str) -> None:
    """Each page is shown, or says of which row it cannot be."""
    paths = [*LISTS, *details()]
    for forged in FORGED:
        assert model._default_manager.update(**{column: forged}), "nothing is stored to be forged"
        for path in paths:
            answer = client.get(path)
            assert answer.status_code == 200 or (path not in LISTS and answer.status_code == 409), path
            assert answer.status_code == 200 or TAMPERED in answer.content.decode(), path


@pytest.mark.slow
@pytest.mark.parametrize("forged", ["a/b", ""])
@pytest.mark.parametrize(
    ("model", "column"),
    [
        (Agent, "agent_id"),
        (PolicyKind, "kind"),
        (PolicyKind, "version"),
        (Manifest, "version"),
        (Flow, "policy_kind"),
        (Target, "name"),
        (Guard, "guard_id"),
    ],
)
def test_a_name_that_is_no_part_of_an_address_closes_no_page(
    client: Client, model: type[models.Model], column: str, forged: str
) -> None:
    paths = [*LISTS, *details()]
    row = model._default_manager.first()
    assert row is not None
    model._default_manager.filter(pk=row.pk).update(**{column: forged})
    for path in paths:
        assert client.get(path).status_code in ({200} if path in LISTS else {200, 404, 409}), path


@pytest.mark.parametrize(
    ("model", "column", "page"),
    [
        (Proposal, "body", "flow"),
        (Verdict, "body", "flow"),
        (Outcome, "receipt", "flow"),
        (Outcome, "writes", "flow"),
        (Intent, "requests", "flow"),
        (Flow, "trigger", "flow"),
        (Snapshot, "body", "context"),
        (Proposal, "body", "review"),
        (Review, "findings", "review"),
        (Manifest, "body", "agent"),
        (Manifest, "body", "manifest"),
        (Manifest, "body", "new-manifest"),
        (PolicyKind, "body", "kind"),
        (PolicyKind, "body", "new-kind-version"),
        (PolicyKind, "body", "kinds"),
        (PolicyKind, "body", "overview"),
        (Guard, "body", "reviews"),
        (Target, "refuses", "targets"),
    ],
)
def test_what_was_changed_is_not_shown_as_if_it_were_recorded(
    client: Client, model: type[models.Model], column: str, page: str
) -> None:
    done = Intent.objects.get(state="DONE")
    agent = f"/agents/{trading_desk.AGENT}/"
    path = {
        "flow": f"/flows/{done.flow_id}/",
        "context": f"/flows/{done.flow_id}/contexts/{Snapshot.objects.get(flow=done.flow_id).context_ref}/",
        "review": f"/reviews/{Review.objects.get().pk}/",
        "agent": agent,
        "manifest": f"{agent}manifests/1.0.0/",
        "new-manifest": f"{agent}manifests/new/",
        "kind": f"/kinds/{trading_desk.KIND}/",
        "new-kind-version": f"/kinds/{trading_desk.KIND}/new/",
        "kinds": "/kinds/",
        "overview": "/",
        "reviews": "/reviews/",
        "targets": "/targets/",
    }[page]
    words = (TAMPERED, "Does not match the ledger", "is not evaluated")
    before = client.get(path)
    assert before.status_code == 200
    assert not any(word in before.content.decode() for word in words)
    model._default_manager.update(**{column: b'{"forged":1}'})
    after = client.get(path).content.decode()
    assert any(word in after for word in words)
    assert "forged" not in after
