"""What a notice of an escalation says: the JSON body of a webhook, and plain text for mail and chat.

Makes no queries. A notice leads to the page and never decides. Values of agents are shown so that they lead
nowhere: neither a link nor a mention of theirs works in the text.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.urls import reverse

from audit import canonical
from escalations import presenters
from escalations.contracts import Family, Occasion, State
from escalations.evidence_contracts import AnyEvidence
from escalations.models import Escalation
from runtime.contracts import timestamps
from runtime.core.views import labels
from runtime.kernel import effects

LONGEST_EFFECT: Final = 1000
LINK_WORDS: Final = "The link opens the page. It decides nothing."
_UNTRUSTED: Final = "The stored evidence does not match the ledger. Open the page before you decide."
_TITLES: Mapping[Occasion, str] = {
    Occasion.OPENED: "Decision needed",
    Occasion.HALF_TIME: "Half of the time has passed",
    Occasion.HANDED_UP: "For seniors: little time is left",
}
_TYPES: Mapping[str, str] = {
    State.RESOLVED: "escalation.decided",
    State.EXPIRED: "escalation.expired",
    State.WITHDRAWN: "escalation.withdrawn",
}
_TEST_TEXT: Final = "This is a test notice of DIR Console. Nothing waits for a decision."
_LINKS = re.compile(r"(?i)([a-z][a-z0-9+.-]*):(?=//)|www\.")


@dataclass(frozen=True, kw_only=True)
class Message:
    """One notice in both forms."""

    title: str
    text: str
    body: bytes


def of_test(*, at: datetime) -> Message:
    """The notice that an admin sends to see whether a route works. Its members are those of a real one."""
    data = dict.fromkeys(
        (
            "escalation_id",
            "dfid",
            "agent_id",
            "policy_kind",
            "impact",
            "reason",
            "effect",
            "deadline_at",
            "family",
            "state",
            "resolution",
        )
    )
    address = f"{settings.DIR_PUBLIC_URL}{reverse('notifications')}"
    return Message(
        title="DIR Console: test notice",
        text=f"{_TEST_TEXT}\n\n{address}",
        body=json_body("notification.test", at, {**data, "effect": _TEST_TEXT, "url": address}),
    )


def of_escalation(
    *, row: Escalation, evidence: AnyEvidence | None, occasion: Occasion, at: datetime
) -> Message:
    """The notice of one occasion. `evidence` is None where it is not what the ledger recorded."""
    effect = _UNTRUSTED
    if evidence is not None:
        effect = "".join(part.text for part in presenters.segments(evidence))[:LONGEST_EFFECT]
    is_closed = occasion is Occasion.CLOSED
    url = page_url(row.pk)
    data = {
        "escalation_id": str(row.pk),
        "dfid": str(row.flow_id),
        "agent_id": row.agent_id,
        "policy_kind": row.policy_kind,
        "impact": row.impact,
        "reason": row.reason,
        "effect": effect,
        "deadline_at": None if row.deadline_at is None else timestamps.iso(row.deadline_at),
        "url": url,
        "family": row.family,
        "state": row.state,
        "resolution": row.resolution,
    }
    kind = _TYPES.get(row.state, "escalation.closed") if is_closed else f"escalation.{occasion.lower()}"
    return Message(
        title=_title(row, occasion),
        text=_text(row, evidence, effect=effect, url=url, is_closed=is_closed),
        body=json_body(kind, at, data),
    )


def page_url(escalation_id: UUID) -> str:
    """The address of the decision page; without DIR_PUBLIC_URL only its path."""
    return f"{settings.DIR_PUBLIC_URL}{reverse('escalation', args=[escalation_id])}"


def inert(text: str) -> str:
    """A text of an agent on one line, in which no link and no mention works: `https[:]//`, `(at)`."""
    shown = effects.visible(" ".join(text.split()))
    shown = _LINKS.sub(lambda found: f"{found[1]}[:]" if found[1] else "www[.]", shown)
    return shown.replace("@", "(at)").replace("<", "(").replace(">", ")")


def _title(row: Escalation, occasion: Occasion) -> str:
    impact = labels.badge(labels.IMPACTS, row.impact).word.lower()
    of_what = f"{row.policy_kind} of {row.agent_id}" if row.policy_kind else row.agent_id
    if occasion is Occasion.CLOSED:
        words = labels.badge(presenters.RESOLUTIONS, row.resolution or row.state).word
    elif row.family == Family.AGENT and occasion is Occasion.OPENED:
        words = "An agent is silent"
    elif row.family == Family.INTERRUPT and occasion is Occasion.OPENED:
        words = "A workflow is interrupted"
    else:
        words = _TITLES[occasion]
    return inert(f"{words}: {of_what}, {impact}")


def _text(row: Escalation, evidence: AnyEvidence | None, *, effect: str, url: str, is_closed: bool) -> str:
    meaning = labels.meaning(row.reason)
    lines = [inert(effect), "", f"Reason: {meaning or inert(row.reason)}"]
    bound = None if evidence is None else presenters.crossed(evidence)
    if bound is not None:
        lines.append(inert(labels.compared(row.reason, bound.value, bound.limit)))
    lines.append(f"Impact: {labels.badge(labels.IMPACTS, row.impact).word}")
    lines.append(f"Agent: {inert(row.agent_id)}")
    if is_closed:
        lines.append(f"Result: {labels.badge(presenters.RESOLUTIONS, row.resolution or row.state).word}")
    elif row.deadline_at is not None:
        lines.append(f"Deadline: {row.deadline_at:%Y-%m-%d %H:%M:%S} UTC")
    else:
        lines.append("Deadline: none, it waits until somebody decides")
    lines += ["", url, LINK_WORDS]
    return "\n".join(lines)


def json_body(kind: str, at: datetime, data: Mapping[str, Any]) -> bytes:
    """The body of a webhook."""
    return canonical.encode({"type": kind, "timestamp": timestamps.iso(at), "data": dict(data)})
