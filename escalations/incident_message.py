"""What a notice of an incident says, in the forms of `notice_message`. Makes no queries.

Titles are typed by people, or made by rules from names of agents: they are shown as values of agents are.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from django.conf import settings
from django.urls import reverse

from escalations import notice_message
from escalations.contracts import Occasion
from escalations.notice_message import Message, inert
from runtime.contracts import timestamps
from runtime.contracts.incident import LONGEST_TITLE
from runtime.core.views import labels
from runtime.incidents.models import Incident
from runtime.incidents.views import presenters

_UNTRUSTED: Final = "The stored incident does not match the ledger. Open its page."
_TITLES: Mapping[Occasion, str] = {
    Occasion.INCIDENT_OPENED: "{severity} incident opened",
    Occasion.INCIDENT_RAISED: "Incident raised to {severity}",
    Occasion.INCIDENT_CLOSED: "{severity} incident closed",
}
_TYPES: Mapping[Occasion, str] = {
    Occasion.INCIDENT_OPENED: "incident.opened",
    Occasion.INCIDENT_RAISED: "incident.raised",
    Occasion.INCIDENT_CLOSED: "incident.closed",
}


def of_incident(*, row: Incident, is_recorded: bool, occasion: Occasion, at: datetime) -> Message:
    """The notice of one occasion; `row` with its lead. `is_recorded`: the row is what its entries say."""
    title, lead, rule = _UNTRUSTED, "", ""
    if is_recorded:
        title, lead, rule = row.title[:LONGEST_TITLE], presenters.lead(row), row.rule_name
    url = f"{settings.DIR_PUBLIC_URL}{reverse('incident', args=[row.pk])}"
    data = {
        "incident_id": str(row.pk),
        "title": title,
        "severity": row.severity,
        "state": row.state,
        "lead": lead or None,
        "rule": rule,
        "opened_at": timestamps.iso(row.opened_at),
        "url": url,
    }
    severity = labels.badge(presenters.SEVERITIES, row.severity)
    lines = [
        inert(title),
        "",
        f"Severity: {severity.word}, {severity.title[:1].lower()}{severity.title[1:]}",
        f"State: {labels.badge(presenters.STATES, row.state).word}",
        f"Lead: {inert(lead) if lead else 'nobody yet'}",
        f"Opened: {row.opened_at:%Y-%m-%d %H:%M:%S} UTC{f', by the rule {inert(rule)}' if rule else ''}",
        "",
        url,
        notice_message.LINK_WORDS,
    ]
    return Message(
        title=inert(f"{_TITLES[occasion].format(severity=row.severity)}: {title}"),
        text="\n".join(lines),
        body=notice_message.json_body(_TYPES[occasion], at, data),
    )
