"""What people do with an incident: each change is an entry, and what is not allowed changes nothing."""

from datetime import date
from typing import Any
from uuid import uuid4

import pytest
from django.db import IntegrityError, transaction

from audit.models import LedgerEntry, Payload
from audit.verification.verify import Whole, verify_database
from runtime.contracts.incident import IncidentState, LinkKind, Severity
from runtime.contracts.post_mortem import PostMortemBody
from runtime.contracts.problem import Problem
from runtime.incidents.models import Incident, IncidentLink
from runtime.incidents.queries import kept
from runtime.incidents.services import incidents
from runtime.incidents.services.incidents import Wanted
from runtime.kernel import incident_moves
from tests.support import factories, incident_story, ledger_tampering

pytestmark = pytest.mark.django_db


@pytest.fixture
def olivia() -> int:
    return factories.user("olivia").pk


def code_of(answer: object) -> str:
    assert isinstance(answer, Problem), answer
    return answer.code.value


def test_an_incident_runs_its_course_and_every_step_is_recorded(olivia: int) -> None:
    desk = factories.desk()
    flow = desk.open()
    done = incident_story.write(author=olivia, other=factories.user("mara").pk, dfid=flow.dfid)
    assert done.state == IncidentState.CLOSED
    assert incident_story.kinds(done) == [
        "incident:opened",
        "incident:linked",
        "incident:noted",
        "incident:linked",
        "incident:linked",
        "incident:unlinked",
        "incident:noted",
        "incident:action_added",
        "incident:action_added",
        "incident:action_done",
        "incident:edited",
        "post_mortem:saved",
        "post_mortem:saved",
        "incident:moved",
        "incident:moved",
        "post_mortem:signed",
        "incident:moved",
    ]
    assert isinstance(verify_database(), Whole)
    assert ledger_tampering.differences() == []


def test_an_incident_that_cannot_link_what_it_should_is_not_opened(olivia: int) -> None:
    before = LedgerEntry.objects.count()
    for wanted in (
        Wanted(LinkKind.FLOW, str(uuid4())),
        Wanted(LinkKind.FLOW, "nonsense"),
        Wanted(LinkKind.RECORD, "dr_nothing"),
        Wanted(LinkKind.ESCALATION, str(uuid4())),
        Wanted(LinkKind.AGENT, "nobody"),
        Wanted(LinkKind.TARGET, "nowhere"),
        Wanted(LinkKind.PERSON, "user:99999"),
        Wanted(LinkKind.PERSON, "no such name"),
    ):
        answer = incidents.open_incident(
            tenant="default", title="x", severity=Severity.SEV4, author=olivia, lead=None, links=[wanted]
        )
        assert code_of(answer) == "LINK_NOT_FOUND", wanted
    assert not Incident.objects.exists()
    assert LedgerEntry.objects.count() == before


def test_everything_that_exists_can_be_linked_and_keeps_its_flow(olivia: int) -> None:
    desk = factories.desk()
    escalation = desk.escalate()
    flow = desk.open()
    incident = incident_story.open_by(
        olivia,
        links=[
            Wanted(LinkKind.FLOW, str(flow.dfid)),
            Wanted(LinkKind.ESCALATION, str(escalation.pk)),
            Wanted(LinkKind.AGENT, desk.agent.agent_id),
            Wanted(LinkKind.PERSON, "olivia"),
        ],
    )
    assert set(kept.linked_flows(tenant="default")) == {flow.dfid, escalation.flow_id}
    assert kept.is_linked(flow.dfid)
    assert kept.linked_among([flow.dfid, uuid4()]) == {flow.dfid}
    assert not kept.is_linked(uuid4())
    assert incident.links.get(kind="PERSON").ref == f"user:{olivia}"
    link = incident.links.get(kind="FLOW")
    given: dict[str, Any] = {"tenant": "default", "incident_id": incident.pk, "author": olivia}
    assert incidents.unlink(link_pk=link.pk, reason="Wrong one.", **given) is None
    assert not kept.is_linked(flow.dfid)
    assert code_of(incidents.unlink(link_pk=link.pk, reason="Again.", **given)) == "LINK_NOT_FOUND"
    wanted = Wanted(LinkKind.FLOW, str(flow.dfid))
    assert incidents.link(wanted=wanted, **given) is None
    assert incidents.link(wanted=wanted, **given) is None
    assert incident.links.filter(kind="FLOW", removed_at=None).count() == 1
    assert kept.is_linked(flow.dfid)
    assert ledger_tampering.differences() == []


def test_a_closed_incident_still_keeps_its_flows_and_its_records(olivia: int) -> None:
    desk = factories.desk()
    flow = desk.open()
    incident = incident_story.open_by(
        olivia, severity=Severity.SEV4, links=[Wanted(LinkKind.FLOW, str(flow.dfid))]
    )
    assert not isinstance(incident_story.close(incident, olivia), Problem)
    assert kept.is_linked(flow.dfid)
    assert list(kept.linked_records(tenant="default")) == []


@pytest.mark.parametrize("before", list(IncidentState))
@pytest.mark.parametrize("after", list(IncidentState))
def test_only_the_moves_of_the_table_are_made(
    olivia: int, before: IncidentState, after: IncidentState
) -> None:
    incident = incident_story.open_by(olivia, severity=Severity.SEV4)
    roads: dict[IncidentState, list[IncidentState]] = {
        IncidentState.OPEN: [],
        IncidentState.MITIGATED: [IncidentState.MITIGATED],
        IncidentState.RESOLVED: [IncidentState.RESOLVED],
        IncidentState.CLOSED: [IncidentState.RESOLVED, IncidentState.CLOSED],
    }
    for step in roads[before]:
        assert not isinstance(incident_story.move(incident, step, olivia), Problem)
    told = incident_story.kinds(incident)
    answer = incident_story.move(incident, after, olivia)
    incident.refresh_from_db()
    if incident_moves.allows(before, after):
        assert not isinstance(answer, Problem)
        assert incident.state == after
    else:
        assert code_of(answer) == "INCIDENT_NOT_IN_THAT_STATE"
        assert incident.state == before
        assert incident_story.kinds(incident) == told
    assert ledger_tampering.differences() == []


def test_a_closed_incident_takes_notes_and_done_actions_and_nothing_else(olivia: int) -> None:
    incident = incident_story.open_by(olivia, severity=Severity.SEV3)
    given: dict[str, Any] = {"tenant": "default", "incident_id": incident.pk, "author": olivia}
    assert incidents.add_action(text="Fix", owner=olivia, due_on=date(2030, 1, 1), **given) is None
    assert not isinstance(incident_story.close(incident, olivia), Problem)
    refused = (
        incidents.edit(title="y", severity=Severity.SEV1, lead=None, reason="x", **given),
        incidents.link(wanted=Wanted(LinkKind.PERSON, "olivia"), **given),
        incidents.unlink(link_pk=1, reason="x", **given),
        incidents.add_action(text="More", owner=olivia, due_on=date(2030, 1, 1), **given),
        incident_story.save(incident, olivia),
    )
    assert {code_of(answer) for answer in refused} == {"INCIDENT_NOT_IN_THAT_STATE"}
    assert incidents.note(text="Afterwards.", **given) is None
    action = incident.actions.get()
    for _ in range(2):
        assert incidents.finish_action(action_id=action.pk, **given) is None
    assert incident_story.kinds(incident).count("incident:action_done") == 1


def test_a_high_severity_is_closed_only_by_its_lead_with_a_complete_post_mortem(olivia: int) -> None:
    other = factories.user("mara").pk
    incident = incident_story.open_by(olivia)
    assert code_of(incident_story.close(incident, olivia)) == "POST_MORTEM_REQUIRED"
    incident_story.save(incident, other, body=PostMortemBody(summary="Only this."))
    missing = incident_story.move(incident, IncidentState.CLOSED, olivia)
    assert isinstance(missing, Problem)
    assert "impact, root causes" in missing.detail
    incident_story.save(incident, other, after=1)
    assert code_of(incident_story.move(incident, IncidentState.CLOSED, other)) == "POST_MORTEM_REQUIRED"
    assert not incident.post_mortems.exclude(signed_at=None).exists()
    assert not isinstance(incident_story.move(incident, IncidentState.CLOSED, olivia), Problem)
    signed = incident.post_mortems.exclude(signed_at=None).get()
    assert (signed.version, signed.signed_by) == (2, f"user:{olivia}")
    assert ledger_tampering.differences() == []


def test_who_saves_after_somebody_else_is_told(olivia: int) -> None:
    incident = incident_story.open_by(olivia)
    assert incident_story.save(incident, olivia).version == 1
    assert code_of(incident_story.save(incident, olivia)) == "POST_MORTEM_CHANGED"
    assert incident_story.save(incident, olivia, after=1).version == 2


@pytest.mark.parametrize("title", ["", "  ", "x" * 161, "two\nlines", "nul\x00"])
def test_a_title_is_one_line(olivia: int, title: str) -> None:
    answer = incidents.open_incident(
        tenant="default", title=title, severity=Severity.SEV4, author=olivia, lead=None
    )
    assert code_of(answer) == "INVALID_REQUEST"


def test_only_who_may_work_on_incidents_leads_one(olivia: int) -> None:
    auditor = factories.user("aud", "auditor").pk
    gone = factories.user("gone")
    gone.is_active = False
    gone.save()
    for pk in (auditor, gone.pk, 99_999):
        answer = incidents.open_incident(
            tenant="default", title="x", severity=Severity.SEV4, author=olivia, lead=pk
        )
        assert code_of(answer) == "INVALID_REQUEST"


def test_of_another_tenant_or_of_nobody_nothing_is_found(olivia: int) -> None:
    incident = incident_story.open_by(olivia)
    for tenant, pk in (("other", incident.pk), ("default", uuid4())):
        answer = incidents.note(tenant=tenant, incident_id=pk, text="x", author=olivia)
        assert code_of(answer) == "NOT_FOUND"


def test_erasing_the_words_of_a_note_leaves_no_copy(olivia: int) -> None:
    incident = incident_story.open_by(olivia, note="Customer 4711 called.")
    commitment = incident.notes.get().commitment
    assert b"4711" in (Payload.objects.get(commitment=commitment).body or b"")
    assert not any(b"4711" in bytes(row.body) for row in LedgerEntry.objects.all())


@pytest.mark.parametrize(
    "broken",
    [
        {"state": "CLOSED"},
        {"state": "MITIGATED"},
        {"state": "ELSE"},
        {"severity": "SEV9"},
        {"title": ""},
        {"rule_name": "x"},
        {"sightings": 3},
        {"crossing": 3},
    ],
    ids=str,
)
def test_the_database_keeps_the_rules_of_a_row(olivia: int, broken: dict[str, Any]) -> None:
    incident = incident_story.open_by(olivia)
    with pytest.raises(IntegrityError), transaction.atomic():
        Incident.objects.filter(pk=incident.pk).update(**broken)


def test_the_database_keeps_the_flow_of_a_link(olivia: int) -> None:
    incident = incident_story.open_by(olivia, links=[Wanted(LinkKind.PERSON, "olivia")])
    with pytest.raises(IntegrityError), transaction.atomic():
        IncidentLink.objects.filter(incident=incident).update(kind="FLOW")
