"""The agent API put together: `/api/v1`, its OpenAPI 3.1 document and its page."""

from django.views.decorators.http import require_safe
from ninja import NinjaAPI

from dir_console import problems
from escalations import api as escalations_api
from runtime.api import (
    artifacts,
    docs,
    events,
    facts,
    feedback,
    flows,
    handshakes,
    memory,
    proposals,
    schemas,
    steps,
    usage,
)
from runtime.contracts import wire

api = NinjaAPI(
    title="DIR Console agent API",
    version=wire.RUNTIME_VERSION,
    description=(
        "Agents propose, a deterministic gate judges. Bodies are I-JSON in UTF-8; every error is a problem "
        "document (RFC 9457) with a code. An agent key makes the handshake; its session token makes the rest."
    ),
    docs=docs.DocsPage(),
    docs_decorator=require_safe,
    urls_namespace="api",
)
problems.register(api)
for router in (
    handshakes,
    schemas,
    flows,
    proposals,
    feedback,
    usage,
    steps,
    events,
    memory,
    artifacts,
    facts,
    escalations_api,
):
    api.add_router("", router.router)
