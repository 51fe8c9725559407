"""When a page was shown, as the form brings it back: signed by the server, so that nobody states a time."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from audit.access.permissions import require, tenant_of
from audit.access.roles import Permission
from escalations.services import decision_pace
from runtime.contracts import timestamps
from runtime.core import clock

SALT = "escalations.shown"


@dataclass(frozen=True, slots=True)
class Page:
    """What was shown to whom: one revision of an escalation's evidence, to one person."""

    escalation_id: UUID
    evidence_hash: str
    user_pk: int

    def named(self) -> list[str | int]:
        """The parts, as they are signed."""
        return [str(self.escalation_id), self.evidence_hash, self.user_pk]


def write(page: Page) -> str:
    """Return the text for the hidden field `shown` of a page that is sent now."""
    return signing.dumps([*page.named(), timestamps.to_ms(clock.now())], salt=SALT)


def read(text: str, *, of: Page) -> int | None:
    """Return when that page was sent, in Unix milliseconds; None where the text is about another one."""
    try:
        stated: Any = signing.loads(text, salt=SALT)
    except signing.BadSignature:
        return None
    *named, at_ms = stated
    return int(at_ms) if named == of.named() else None


@require_POST
@require(Permission.DECIDE)
def end_pause(request: HttpRequest) -> HttpResponse:
    """Record that the person has looked at how the last overrides ended, and go back to the page."""
    decision_pace.end_pause(tenant=tenant_of(request.user), user_id=request.user.pk or 0)
    next_url = request.POST.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(next_url, allowed_hosts=None)
    return redirect(next_url if is_ours else reverse("escalations"))
