"""Incidents for auditors' programs: read only, in the form of the document, and never what was changed."""

from typing import Any
from uuid import UUID, uuid4

import jsonschema_rs
import pytest

from dir_console.api import api
from runtime.contracts.incident import Severity
from runtime.incidents.models import Incident
from tests.support import api_client, factories, incident_story

pytestmark = pytest.mark.django_db


@pytest.fixture
def auditor(desk: None) -> api_client.Caller:
    return api_client.Caller(api_client.auditor_key())


@pytest.fixture
def whole(desk: None) -> Incident:
    other = factories.desk(agent_id="analyst")
    return incident_story.write(
        author=factories.user("olivia").pk, other=factories.user("mara").pk, dfid=other.open().dfid
    )


def schema_of(path: str) -> Any:
    document: Any = api.get_openapi_schema()
    content = document["paths"][path]["get"]["responses"][200]["content"]
    return content["application/json"]["schema"]


def test_an_incident_is_read_with_all_its_parts(auditor: api_client.Caller, whole: Incident) -> None:
    answer = auditor.get(f"/audit/incidents/{whole.pk}")
    assert answer.status == 200
    jsonschema_rs.validate(schema_of("/api/v1/audit/incidents/{incident_id}"), answer.body)
    assert answer.body["state"] == "CLOSED"
    assert [link["kind"] for link in answer.body["links"]] == ["FLOW", "PERSON"]
    assert [note["text"] for note in answer.body["notes"]] == ["The broker confirms.", "It began at nine."]
    assert {action["text"] for action in answer.body["actions"]} == {"Add the check", "Test the check"}
    assert answer.body["post_mortem"]["parts"]["root_causes"] == "A missing check."
    assert answer.body["post_mortem"]["signed_by"] == answer.body["lead"]


def test_the_list_is_filtered_and_paged(auditor: api_client.Caller, whole: Incident) -> None:
    olivia = whole.lead_id or 0
    ids = [str(incident_story.open_by(olivia, severity=Severity.SEV4).pk) for _ in range(3)]
    path = "/audit/incidents?severity=SEV4&state=OPEN&limit=2"
    first = auditor.get(path).body
    jsonschema_rs.validate(schema_of("/api/v1/audit/incidents"), first)
    second = auditor.get(f"{path}&after={first['next']}").body
    found = [item["incident_id"] for page in (first, second) for item in page["incidents"]]
    assert found == ids[::-1]
    assert second["next"] is None
    assert auditor.get("/audit/incidents?state=WRONG").status == 422
    assert auditor.get("/audit/incidents?after=x").status == 422


def test_what_is_not_there_and_what_was_changed(auditor: api_client.Caller, whole: Incident) -> None:
    auditor.get(f"/audit/incidents/{uuid4()}").problem(404, "NOT_FOUND")
    Incident.objects.filter(pk=whole.pk).update(title="Nothing happened")
    auditor.get(f"/audit/incidents/{whole.pk}").problem(409, "TAMPERED")


@pytest.mark.parametrize("path", ["/audit/incidents", f"/audit/incidents/{UUID(int=7)}"])
def test_nobody_else_reads_them(desk: None, path: str) -> None:
    api_client.Caller().get(path).problem(401, "UNAUTHENTICATED")
    for token in (api_client.agent_key(), api_client.feed_key()):
        assert api_client.Caller(token).get(path).status == 403
