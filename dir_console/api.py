"""The API put together: `/api/v1`, its OpenAPI 3.1 document and its page."""

from http import HTTPStatus
from typing import Any

from django.views.decorators.http import require_safe
from ninja import NinjaAPI
from ninja.openapi.schema import OpenAPISchema

from audit.api import calls as audit_calls
from audit.api import contract_calls, reasoning_calls, record_calls
from dir_console import problems
from escalations import api as escalations_api
from escalations import spec_calls
from runtime.advice.api import advice_calls
from runtime.contexts.api import event_calls, report_calls
from runtime.contracts import api_schemas
from runtime.conversations.api import capability_calls, message_calls
from runtime.core.api import docs_page, openapi
from runtime.execution.api import execution_calls
from runtime.flows.api import feedback_calls, flow_calls
from runtime.incidents.api import incident_calls
from runtime.maintenance.api import evidence_calls, metric_calls, retention_calls
from runtime.proposals.api import (
    calibration_calls,
    decision_calls,
    proposal_calls,
    record_report_calls,
    replay_calls,
)
from runtime.registry.api import auth, handshake_calls, schema_calls
from runtime.state.api import artifact_calls, fact_calls, memory_calls, task_calls, world_calls


class ConsoleAPI(NinjaAPI):
    """Says of every call in its document that it is refused with problem documents."""

    def get_openapi_schema(self, **named: Any) -> OpenAPISchema:
        """The whole OpenAPI document."""
        document = super().get_openapi_schema(**named)
        for methods in document["paths"].values():
            for operation in methods.values():
                responses = operation["responses"]
                responses.setdefault("default", openapi.PROBLEM)
                for status, response in responses.items():
                    if status != "default" and int(status) >= HTTPStatus.BAD_REQUEST:
                        response.setdefault("content", openapi.PROBLEM["content"])
        return document


api = ConsoleAPI(
    title="DIR Console agent API",
    version=api_schemas.RUNTIME_VERSION,
    description=(
        "Agents propose, a deterministic gate judges. Bodies are I-JSON in UTF-8; every error is a problem "
        "document (RFC 9457) with a code. An agent key makes the handshake; its session token makes the "
        "rest. Under `/audit/` auditors read what proves the ledger."
    ),
    docs=docs_page.DocsPage(),
    docs_decorator=require_safe,
    urls_namespace="api",
)
problems.register(api)
for router in (
    handshake_calls,
    schema_calls,
    flow_calls,
    proposal_calls,
    feedback_calls,
    report_calls,
    advice_calls,
    event_calls,
    message_calls,
    capability_calls,
    memory_calls,
    artifact_calls,
    fact_calls,
    world_calls,
    task_calls,
    execution_calls,
    decision_calls,
    retention_calls,
    escalations_api,
):
    api.add_router("", router.router)
api.add_router("", calibration_calls.own_router)
for router in (
    audit_calls,
    contract_calls,
    reasoning_calls,
    evidence_calls,
    metric_calls,
    replay_calls,
    record_calls,
    record_report_calls,
    calibration_calls,
    incident_calls,
    spec_calls,
):
    api.add_router("/audit", router.router, auth=auth.AuditorAccess())
