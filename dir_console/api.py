"""The agent API put together: `/api/v1`, its OpenAPI 3.1 document and its page."""

from django.views.decorators.http import require_safe
from ninja import NinjaAPI

from dir_console import problems
from escalations import api as escalations_api
from runtime.contexts.api import event_calls, report_calls
from runtime.contracts import api_schemas
from runtime.core.api import docs_page
from runtime.flows.api import feedback_calls, flow_calls
from runtime.proposals.api import proposal_calls
from runtime.registry.api import handshake_calls, schema_calls
from runtime.state.api import artifact_calls, fact_calls, memory_calls

api = NinjaAPI(
    title="DIR Console agent API",
    version=api_schemas.RUNTIME_VERSION,
    description=(
        "Agents propose, a deterministic gate judges. Bodies are I-JSON in UTF-8; every error is a problem "
        "document (RFC 9457) with a code. An agent key makes the handshake; its session token makes the rest."
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
    event_calls,
    memory_calls,
    artifact_calls,
    fact_calls,
    escalations_api,
):
    api.add_router("", router.router)
