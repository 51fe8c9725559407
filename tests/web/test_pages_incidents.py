"""Pages of incidents: opened with what the page was about, worked on by plain forms, read by everybody."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from markdown_it import MarkdownIt

from audit.access.roles import Role
from audit.models import DecisionRecord
from runtime.contracts.incident import LinkKind, Severity
from runtime.contracts.post_mortem import PostMortemBody
from runtime.incidents.models import Incident, IncidentRuleRow
from runtime.incidents.services.incidents import Wanted
from runtime.incidents.views import markdown
from tests.support import factories, incident_story, ledger_tampering
from tests.web.test_pages import code_in, sign_in, text_of

pytestmark = pytest.mark.django_db
HOSTILE = "<script>alert(1)</script> *bold* [x](javascript:1)"


@pytest.fixture
def desk() -> factories.Desk:
    return factories.desk()


@pytest.fixture
def olivia() -> Client:
    return sign_in(Role.OPERATOR, name="olivia")


def pk_of(name: str) -> int:
    return int(User.objects.get(username=name).pk)


def post(client: Client, path: str, **form: Any) -> Any:
    return client.post(path, form)


def test_an_incident_is_opened_from_each_page_with_what_the_page_is_about(
    desk: factories.Desk, olivia: Client
) -> None:
    escalation = desk.escalate()
    for page, name, ref in (
        (f"/flows/{escalation.flow_id}/", "flow", str(escalation.flow_id)),
        (f"/escalations/{escalation.pk}/", "escalation", str(escalation.pk)),
        (f"/agents/{desk.agent.agent_id}/", "agent", desk.agent.agent_id),
    ):
        address = f"/incidents/new/?{name}={ref}"
        assert f'href="{address}"' in text_of(olivia, page)
        assert f'name="{name}" class="mono" value="{ref}"' in text_of(olivia, address)
    form = {"title": HOSTILE, "severity": "SEV2", "lead": pk_of("olivia"), "note": "It began at nine."}
    links = {"flow": str(escalation.flow_id), "escalation": str(escalation.pk), "agent": "trader"}
    answer = post(olivia, "/incidents/new/", **form, **(links | {"agent": desk.agent.agent_id}))
    incident = Incident.objects.get()
    assert (answer.status_code, answer["Location"]) == (302, f"/incidents/{incident.pk}/")
    page = text_of(olivia, f"/incidents/{incident.pk}/")
    assert "It began at nine." in page
    assert "Escalation opened" in page
    assert code_in(page) == []
    for path in (f"/flows/{escalation.flow_id}/", f"/escalations/{escalation.pk}/", "/incidents/"):
        assert f'href="/incidents/{incident.pk}/"' in text_of(olivia, path)
    home = text_of(olivia, "/")
    assert "1 open incident." in home
    assert "The highest severity is SEV2" in home
    assert f"/incidents/{incident.pk}/" in text_of(olivia, "/search/?q=alert(1)")
    assert f"/incidents/{incident.pk}/" in text_of(olivia, f"/search/?q={incident.pk}")


def test_a_record_page_opens_one_too(desk: factories.Desk, olivia: Client) -> None:
    escalation = desk.escalate()
    factories.decide(escalation, factories.user("decider"))
    record = DecisionRecord.objects.filter(dfid=escalation.flow_id).latest("id").record_id
    assert f'href="/incidents/new/?record={record}"' in text_of(olivia, f"/records/{record}/")
    answer = post(olivia, "/incidents/new/", title="x", severity="SEV3", record=record)
    assert answer.status_code == 302
    assert Incident.objects.get().links.get().flow_id == escalation.flow_id


def test_a_form_that_is_refused_keeps_what_was_entered(olivia: Client) -> None:
    for form in (
        {"title": "", "severity": "SEV2"},
        {"title": "x", "severity": "SEV7"},
        {"title": "x", "severity": "SEV2", "lead": "99999"},
        {"title": "x", "severity": "SEV2", "agent": "nobody"},
    ):
        answer = post(olivia, "/incidents/new/", note="Still here.", **form)
        assert answer.status_code in {400, 404}
        page = answer.content.decode()
        assert "Still here." in page
        assert 'role="alert"' in page
    assert not Incident.objects.exists()


def test_everything_on_the_page_is_done_by_plain_forms(desk: factories.Desk, olivia: Client) -> None:
    lead = pk_of("olivia")
    incident = incident_story.open_by(lead, severity=Severity.SEV2)
    home = f"/incidents/{incident.pk}/"
    forms: list[tuple[str, dict[str, Any]]] = [
        ("links/", {"kind": "AGENT", "ref": desk.agent.agent_id}),
        ("notes/", {"text": HOSTILE}),
        ("actions/", {"text": "Fix it", "owner": lead, "due_on": "2020-01-02"}),
        ("edit/", {"title": "Other", "severity": "SEV1", "lead": lead, "reason": "Worse."}),
        ("move/", {"to": "MITIGATED", "reason": "Stopped."}),
        ("move/", {"to": "RESOLVED", "reason": "Fixed."}),
        ("post-mortem/edit/", {"seen": "0", **dict.fromkeys(PostMortemBody.model_fields, HOSTILE)}),
    ]
    for path, form in forms:
        answer = post(olivia, home + path, **form)
        assert answer.status_code == 302, (path, answer.content.decode()[:2000])
    page = text_of(olivia, home)
    assert "Overdue" in page
    assert code_in(page) == []
    assert post(olivia, f"{home}actions/{incident.actions.get().pk}/done/").status_code == 302
    link = incident.links.get()
    assert post(olivia, f"{home}links/{link.pk}/remove/", reason="Wrong.").status_code == 302
    assert post(olivia, f"{home}move/", to="CLOSED", reason="Done.").status_code == 302
    assert "Signed off" in text_of(olivia, home)
    assert ledger_tampering.differences() == []
    printed = text_of(olivia, f"{home}post-mortem/")
    assert "signed off by" in printed
    assert code_in(printed) == []
    assert post(olivia, f"{home}post-mortem/edit/", seen="1").status_code == 409
    assert olivia.get(f"{home}post-mortem/edit/").status_code == 409


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("move/", {"to": "MITIGATED"}),
        ("move/", {"to": "ELSE", "reason": "x"}),
        ("move/", {"to": "CLOSED", "reason": "x"}),
        ("edit/", {"title": "", "severity": "SEV1", "reason": "x"}),
        ("links/", {"kind": "FLOW", "ref": "x"}),
        ("links/", {"kind": "NOTHING", "ref": "x"}),
        ("links/99999/remove/", {"reason": "x"}),
        ("notes/", {"text": " "}),
        ("notes/", {"text": "x" * 5000}),
        ("actions/", {"text": "x", "owner": "1", "due_on": "tomorrow"}),
        ("actions/", {"text": "x", "due_on": "2030-01-01"}),
        ("actions/019aa000-0000-7000-8000-000000000000/done/", {}),
        ("post-mortem/edit/", {"seen": "3"}),
        ("post-mortem/edit/", {"seen": "x"}),
        ("post-mortem/edit/", {"seen": "0", "summary": "x" * 20_001}),
    ],
    ids=str,
)
def test_what_is_wrong_is_refused_and_stores_nothing(olivia: Client, path: str, form: dict[str, Any]) -> None:
    incident = incident_story.open_by(pk_of("olivia"))
    told = incident_story.kinds(incident)
    answer = olivia.post(f"/incidents/{incident.pk}/{path}", form)
    assert 400 <= answer.status_code < 500
    assert incident_story.kinds(incident) == told


def test_an_auditor_reads_and_does_nothing(olivia: Client) -> None:
    incident = incident_story.open_by(pk_of("olivia"), severity=Severity.SEV4)
    auditor = sign_in(Role.AUDITOR, name="aud")
    home = f"/incidents/{incident.pk}/"
    assert "<textarea" not in text_of(auditor, home)
    assert "Open an incident" not in text_of(auditor, "/incidents/")
    assert "Draft a rule" not in text_of(auditor, "/incidents/rules/")
    for path, form in (
        ("/incidents/new/", {"title": "x", "severity": "SEV4"}),
        (f"{home}notes/", {"text": "x"}),
        (f"{home}move/", {"to": "MITIGATED", "reason": "x"}),
        (f"{home}post-mortem/edit/", {"seen": "0"}),
        ("/incidents/rules/usual/", {}),
    ):
        assert auditor.post(path, form).status_code == 403, path
    assert olivia.post("/incidents/rules/usual/", {}).status_code == 403
    assert incident_story.kinds(incident) == ["incident:opened"]


def test_the_post_mortem_begins_with_what_the_entries_tell(desk: factories.Desk, olivia: Client) -> None:
    escalation = desk.escalate()
    incident = incident_story.open_by(pk_of("olivia"), links=[Wanted(LinkKind.FLOW, str(escalation.flow_id))])
    page = text_of(olivia, f"/incidents/{incident.pk}/post-mortem/edit/")
    told = re.search(r'<textarea id="p-timeline"[^>]*>(.*?)</textarea>', page, re.DOTALL)
    assert told is not None
    assert "Escalation opened" in told[1]
    assert "Incident opened" in told[1]


def test_who_saves_second_sees_both_texts(olivia: Client) -> None:
    incident = incident_story.open_by(pk_of("olivia"))
    path = f"/incidents/{incident.pk}/post-mortem/edit/"
    assert post(olivia, path, seen="0", summary="The first.").status_code == 302
    answer = post(olivia, path, seen="0", summary="The second.")
    assert answer.status_code == 409
    page = answer.content.decode()
    assert "The first." in page
    assert "The second." in page
    assert post(olivia, path, seen="1", summary="The second.").status_code == 302


def test_the_markdown_holds_the_words_as_text(olivia: Client) -> None:
    incident = incident_story.open_by(pk_of("olivia"), title=HOSTILE)
    body = PostMortemBody(summary=f"{HOSTILE}\n# Heading\n1. list\n- item\n| a | b |\nhttp://x.example")
    incident_story.save(incident, pk_of("olivia"), body=body)
    answer = olivia.get(f"/incidents/{incident.pk}/post-mortem.md")
    assert answer["Content-Type"] == "text/markdown; charset=utf-8"
    assert answer["Content-Disposition"] == f'attachment; filename="post-mortem-{incident.pk}.md"'
    text = answer.content.decode()
    assert "\\<script\\>" in text
    assert "\\*bold\\*" in text
    assert "\\# Heading" in text
    assert "1\\. list" in text
    assert "\\- item" in text
    assert text.count("\n# ") == 0
    assert text.startswith("# Post-mortem: ")


def test_markdown_of_a_renderer_makes_no_markup_of_what_was_written() -> None:
    hostile = [
        HOSTILE,
        "# a",
        "1) b",
        "- c",
        "+ d",
        "> e",
        "    code",
        "---",
        "===",
        "`x`",
        "![p](q)",
        "&lt;",
    ]
    html = MarkdownIt("commonmark", {"linkify": False}).render(markdown.lines_of("\n".join(hostile)))
    tags = set(re.findall(r"<(/?\w+)", html))
    assert tags <= {"p", "/p", "br"}, html


def test_the_list_is_filtered_by_its_address_and_paged(
    olivia: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead = pk_of("olivia")
    worst = incident_story.open_by(lead, severity=Severity.SEV1, title="Worst")
    for number in range(3):
        incident_story.open_by(lead, severity=Severity.SEV4, title=f"Small {number}", lead=None)
    assert "Small" not in text_of(olivia, "/incidents/?severity=SEV1")
    assert "Worst" not in text_of(olivia, "/incidents/?lead=none")
    assert "Small" not in text_of(olivia, f"/incidents/?lead={lead}")
    assert "No incident matches" in text_of(olivia, "/incidents/?age=week")
    assert "No incident matches" in text_of(olivia, "/incidents/?state=CLOSED")
    assert "Small 1" in text_of(olivia, "/incidents/?q=small+1&state=live")
    for nonsense in ("?lead=x&state=x&severity=x&age=x&after=x", "?q=%00"):
        assert "Worst" in text_of(olivia, f"/incidents/{nonsense}")
    page = text_of(olivia, f"/incidents/?after={worst.pk}")
    assert "Small" not in page
    fragment = olivia.get("/incidents/", headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in fragment
    assert "Worst" in fragment
    for part in ("", "?part=timeline"):
        piece = olivia.get(f"/incidents/{worst.pk}/{part}", headers={"HX-Request": "true"}).content.decode()
        assert "<html" not in piece


def test_a_row_that_was_changed_is_named_and_not_shown(olivia: Client) -> None:
    incident = incident_story.open_by(pk_of("olivia"))
    Incident.objects.filter(pk=incident.pk).update(severity="SEV4")
    for path in ("", "post-mortem/"):
        answer = olivia.get(f"/incidents/{incident.pk}/{path}")
        assert answer.status_code == 409
        assert "incident.severity" in answer.content.decode()


def test_rules_are_drafted_activated_by_another_and_switched_off() -> None:
    ann, bob = sign_in(Role.ADMIN, name="ann"), sign_in(Role.ADMIN, name="bob")
    form = {
        "name": "refusals",
        "title": "Refused",
        "severity": "SEV3",
        "kinds": "request:refused, verdict:given",
        "where": "code=INVALID_JSON",
        "times": "2",
        "within_s": "60",
        "per": "AGENT",
    }
    for wrong in (
        {"kinds": "incident:opened"},
        {"times": "0"},
        {"name": "No"},
        {"per": "X"},
        {"impact": "X"},
    ):
        answer = ann.post("/incidents/rules/draft/", form | wrong)
        assert answer.status_code == 400
        assert 'role="alert"' in answer.content.decode()
    assert not IncidentRuleRow.objects.exists()
    assert ann.post("/incidents/rules/draft/", form).status_code == 302
    path = "/incidents/rules/refusals/1"
    assert ann.post(f"{path}/activate/", {"reason": "x"}).status_code == 403
    assert bob.post(f"{path}/activate/", {}).status_code == 400
    assert bob.post(f"{path}/activate/", {"reason": "x"}).status_code == 302
    assert bob.post(f"{path}/activate/", {"reason": "x"}).status_code == 409
    page = text_of(ann, "/incidents/rules/")
    assert "with code=INVALID_JSON" in page
    assert code_in(page) == []
    assert ann.post(f"{path}/off/", {"reason": "Noise."}).status_code == 302
    assert ann.post("/incidents/rules/usual/", {}).status_code == 302
    assert IncidentRuleRow.objects.filter(state="DRAFT").count() == 7
    assert ann.post("/incidents/rules/nothing/1/off/", {"reason": "x"}).status_code == 404
    assert ledger_tampering.differences() == []


def test_the_inbox_lists_what_nobody_leads(olivia: Client) -> None:
    led = incident_story.open_by(pk_of("olivia"), title="Somebody leads it")
    assert led.title not in text_of(olivia, "/inbox/")
    incident_story.open_by(pk_of("olivia"), lead=None, title="Nobody leads it")
    page = text_of(olivia, "/inbox/")
    assert "Incidents that nobody leads" in page
    assert "SEV2: Nobody leads it" in page
    assert "Incidents that nobody leads" not in text_of(sign_in(Role.AUDITOR, name="aud"), "/inbox/")
