"""What pages of flows, records, escalations, agents and targets show of incidents."""

from typing import Any
from urllib.parse import urlencode

from django import template
from django.template.context import RequestContext

from audit.access.permissions import may, tenant_of
from audit.access.roles import Permission
from runtime.contracts.incident import LinkKind
from runtime.core.views import addresses
from runtime.incidents.queries import incident_list
from runtime.incidents.views import incident_pages

register = template.Library()


@register.inclusion_tag("runtime/_incident_bar.html", takes_context=True)
def incidents_about(context: RequestContext, kind: str, ref: object) -> dict[str, Any]:
    """The incidents that link something and are not closed, and where another one is opened with it."""
    user, of = context["request"].user, LinkKind(kind)
    rows = incident_list.list_about(tenant=tenant_of(user), kind=of, ref=str(ref))
    address = f"{addresses.of_page('new-incident')}?{urlencode({of.value.lower(): str(ref)})}"
    return {
        "rows": [incident_pages.row(incident) for incident in rows],
        "open_url": address if may(user, Permission.WORK_INCIDENTS) else "",
    }
