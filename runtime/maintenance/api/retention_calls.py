"""`GET /state/retention/{entity}`: how long facts and the words of flows are kept. No call sets it."""

from enum import StrEnum

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from ninja import Router

from audit.access import readers
from runtime.contracts import state_schemas
from runtime.core.api import openapi
from runtime.core.api.responses import reply
from runtime.maintenance.queries import retention
from runtime.registry.api import auth

router = Router(tags=["State"], auth=auth.AuditorAccess())


class Kept(StrEnum):
    """What is deleted when its time is over: versions of facts, and the words of flows that have ended."""

    FACTS = "facts"
    FLOWS = "flows"


@router.get(
    "/state/retention/{entity}", response=state_schemas.RetentionView, openapi_extra=openapi.describe()
)
def read_retention(request: HttpRequest, entity: Kept) -> HttpResponse:
    """The classes of retention in force, and what sets each: a setting, or an active policy kind.

    Of facts the narrowest class counts; what no class names is kept permanently, and so are 0 days.
    """
    match entity:
        case Kept.FACTS:
            classes = [
                state_schemas.RetentionClassView(name=of.selector, days=of.days, set_by="DIR_FACT_RETENTION")
                for of in settings.DIR_FACT_RETENTION
            ]
        case Kept.FLOWS:
            classes = [
                state_schemas.RetentionClassView(
                    name=of.kind or "*",
                    days=of.days,
                    set_by=f"{of.kind} {of.version}" if of.version else retention.SETTING,
                )
                for of in retention.list_classes(tenant=readers.reader_of(request).tenant)
            ]
    return reply(state_schemas.RetentionView(entity=entity.value, classes=tuple(classes)))
