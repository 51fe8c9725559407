"""The OpenAPI document says what the API does: schemathesis calls it; its page needs no script."""

import json
import re
from typing import Any

import jsonschema_rs
import pytest
import requests
import schemathesis
from django.test import Client
from hypothesis import HealthCheck, assume, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from runtime.maintenance.services import sealing
from tests.support import api_client

CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance]
EXAMPLES = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
# What a request of the wrong form is answered with; whatever the document admits has the right form.
FORM = {
    "BAD_REQUEST",
    "INVALID_JSON",
    "INVALID_REQUEST",
    "UNSUPPORTED_MEDIA_TYPE",
    "IDEMPOTENCY_KEY_MISSING",
    "IDEMPOTENCY_KEY_INVALID",
}
CALLS = {
    "POST /api/v1/handshake",
    "GET /api/v1/schema/policy",
    "GET /api/v1/schema/policy/{kind}/latest",
    "GET /api/v1/schema/policy/{kind}/{version}",
    "POST /api/v1/flows",
    "GET /api/v1/flows/{dfid}",
    "POST /api/v1/flows/{dfid}/context",
    "GET /api/v1/flows/{dfid}/consultations",
    "POST /api/v1/flows/{dfid}/consultations",
    "POST /api/v1/flows/{dfid}/decide",
    "POST /api/v1/flows/{dfid}/rules",
    "POST /api/v1/flows/{dfid}/steps",
    "POST /api/v1/flows/{dfid}/steps/check",
    "POST /api/v1/flows/{dfid}/answers",
    "POST /api/v1/flows/{dfid}/cancel",
    "POST /api/v1/flows/{dfid}/usage",
    "POST /api/v1/flows/{dfid}/close",
    "POST /api/v1/flows/{dfid}/proposals",
    "POST /api/v1/proposals",
    "POST /api/v1/proposals/batch",
    "GET /api/v1/flows/{dfid}/feedback",
    "GET /api/v1/events",
    "GET /api/v1/agents/{agent_id}/calibration",
    "POST /api/v1/timers",
    "POST /api/v1/messages",
    "GET /api/v1/messages",
    "POST /api/v1/messages/{message_id}/ack",
    "GET /api/v1/capabilities",
    "PUT /api/v1/memory/{scope}/{key}",
    "GET /api/v1/memory/{scope}/{key}",
    "POST /api/v1/artifacts",
    "PUT /api/v1/state/facts/{path}",
    "PATCH /api/v1/state/facts/{path}",
    "GET /api/v1/state/facts/{path}",
    "GET /api/v1/state/world",
    "GET /api/v1/state/versions",
    "GET /api/v1/state/changes",
    "POST /api/v1/tasks",
    "GET /api/v1/tasks/{task_id}",
    "PATCH /api/v1/tasks/{task_id}",
    "POST /api/v1/tasks/{task_id}/events",
    "POST /api/v1/tasks/{task_id}/links",
    "GET /api/v1/decisions/{decision_id}/context",
    "GET /api/v1/state/retention/{entity}",
    "GET /api/v1/executions/{execution_id}",
    "GET /api/v1/state/ontology/{schema_version}",
    "GET /api/v1/audit/agents/{agent_id}/calibration",
    "GET /api/v1/audit/checkpoints",
    "GET /api/v1/audit/checkpoints/latest",
    "GET /api/v1/audit/proofs/inclusion",
    "GET /api/v1/audit/proofs/consistency",
    "GET /api/v1/audit/keys",
    "GET /api/v1/audit/contracts/{name}/{id}",
    "GET /api/v1/audit/flows/{dfid}/evidence.zip",
    "GET /api/v1/audit/flows/{dfid}/reasoning",
    "GET /api/v1/audit/flows/{dfid}/replay",
    "GET /api/v1/audit/flows/{dfid}/records",
    "GET /api/v1/audit/incidents",
    "GET /api/v1/audit/incidents/{incident_id}",
    "GET /api/v1/audit/records",
    "GET /api/v1/audit/records/{record_id}",
    "GET /api/v1/audit/records/{record_id}/dsse",
    "GET /api/v1/audit/records/{record_id}/feedback",
    "GET /api/v1/audit/reports/decision_metrics",
    "GET /api/v1/audit/reports/high_value_outcomes",
    "GET /api/v1/audit/reports/most_denials",
    "GET /api/v1/audit/specs",
    "GET /api/v1/audit/reports/replay_health",
}


def document() -> dict[str, Any]:
    answer: dict[str, Any] = Client().get("/api/v1/openapi.json").json()
    return answer


def operations() -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{method.upper()} {path}", operation)
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
    ]


def test_is_of_version_3_1_and_names_every_call() -> None:
    assert document()["openapi"].startswith("3.1")
    assert {name for name, _ in operations()} == CALLS


def test_every_call_says_who_may_make_it_and_how_it_refuses() -> None:
    for name, operation in operations():
        assert operation["security"], name
        refusals = [status for status in operation["responses"] if status == "default" or status >= "400"]
        assert "default" in refusals, name
        for status in refusals:
            assert "application/problem+json" in operation["responses"][status]["content"], (name, status)
        assert operation["description"], name


def test_every_call_that_takes_a_body_shows_its_schema() -> None:
    for name, operation in operations():
        if name.split()[0] in {"POST", "PUT"}:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            jsonschema_rs.meta.validate(schema)
            assert "$ref" not in str(schema), name


def test_the_key_of_a_proposal_is_required() -> None:
    parameters = dict(operations())["POST /api/v1/flows/{dfid}/proposals"]["parameters"]
    key = next(item for item in parameters if item["name"] == "Idempotency-Key")
    assert (key["in"], key["required"]) == ("header", True)


def test_is_the_same_each_time() -> None:
    assert document() == document()


def test_the_page_shows_every_call_without_script_or_foreign_host() -> None:
    response = Client().get("/api/v1/docs")
    page = response.content.decode()
    assert response.status_code == 200
    for name in CALLS:
        assert name in page
    assert "<script" not in page
    assert "style=" not in page
    assert not re.search(r"https?://(?!json-schema)", page)
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]


def test_page_and_document_take_no_other_method() -> None:
    for path in ("/api/v1/docs", "/api/v1/openapi.json"):
        assert Client().post(path).status_code == 405


@pytest.mark.slow
@pytest.mark.alike  # forms are checked before a statement is made
@pytest.mark.parametrize("name", sorted(CALLS))
def test_answers_as_documented_whatever_is_sent(trader: api_client.Caller, name: str) -> None:
    tokens = {
        "AgentKey": api_client.agent_key(),
        "SessionToken": trader.token,
        "FeedKey": api_client.feed_key(),
        "AuditorAccess": api_client.auditor_key(),
        "StateReader": trader.token,
    }
    dfid = trader.open_flow()
    sealing.seal_now()
    method, path = name.split()
    operation = schemathesis.openapi.from_dict(document())[path][method]
    token = tokens[next(iter(operation.definition.raw["security"][0]))]

    @EXAMPLES
    @given(case=operation.as_strategy())
    def call(case: Any) -> None:
        if "dfid" in case.path_parameters:
            case.path_parameters["dfid"] = dfid
        assume(is_i_json(case.body))  # what an agent makes up has limits that no schema can say
        case.headers["Authorization"] = f"Bearer {token}"
        answer = send(trader.client, case)
        case.validate_response(answer, checks=CHECKS)
        assert not is_refused_for_its_form(answer), f"the document admits {case.body!r}: {answer.text}"

    call()


def is_refused_for_its_form(answer: schemathesis.Response) -> bool:
    """Whether the API took the request for malformed, which one that the document admits never is."""
    return answer.status_code >= 400 and json.loads(answer.content)["code"] in FORM


def is_i_json(value: Any) -> bool:
    """Whether the value keeps what the description of each body says of RFC 7493."""
    match value:
        case str():
            return all(ord(sign) and not is_noncharacter(ord(sign)) for sign in value)
        case float() | int():
            return abs(value) <= 2**53 - 1
        case dict():
            return all(is_i_json(key) and is_i_json(member) for key, member in value.items())
        case list():
            return all(is_i_json(item) for item in value)
    return True


def is_noncharacter(code: int) -> bool:
    return 0xFDD0 <= code <= 0xFDEF or code & 0xFFFE == 0xFFFE or 0xD800 <= code <= 0xDFFF


def send(client: Client, case: Any) -> schemathesis.Response:
    """Make the call in process, and give the answer the form that schemathesis reads."""
    prepared = requests.Request(**case.as_transport_kwargs(base_url="http://testserver")).prepare()
    headers = {name: str(value) for name, value in prepared.headers.items()}
    content_type = headers.pop("Content-Type", "")
    headers.pop("Content-Length", None)
    content = prepared.body.encode() if isinstance(prepared.body, str) else prepared.body or b""
    answer = client.generic(
        str(prepared.method), prepared.path_url, content, content_type=content_type, headers=headers
    )
    return schemathesis.Response(
        status_code=answer.status_code,
        headers={name.lower(): [value] for name, value in answer.headers.items()},
        content=answer.content,
        request=prepared,
        elapsed=0.0,
        verify=False,
    )
