"""Incidents for tests: rules in force, entries that match them, and an incident that ran its whole course."""

from datetime import date
from typing import Any
from uuid import UUID

from audit import actors, events, ledger
from audit.models import LedgerEntry
from runtime.contracts.incident import IncidentRule, IncidentState, LinkKind, Scope, Severity
from runtime.contracts.post_mortem import PostMortemBody
from runtime.contracts.problem import Problem
from runtime.core import clock, transactions
from runtime.incidents.models import Incident, IncidentRuleRow
from runtime.incidents.services import incident_rules, incidents, post_mortems, rule_rounds
from runtime.incidents.services.incidents import Wanted
from runtime.maintenance.services import sealing

TENANT = "default"
BODY = PostMortemBody(summary="It broke.", impact="One order.", root_causes="A missing check.")


def rule(**changes: Any) -> IncidentRule:
    """Two refusals of one agent within an hour, but for `changes`."""
    asked: dict[str, Any] = {
        "name": "refusals",
        "title": "Refused twice",
        "severity": Severity.SEV3,
        "kinds": ("request:refused",),
        "times": 2,
        "within_s": 3600,
        "per": Scope.AGENT,
        **changes,
    }
    return IncidentRule(**asked)


def activate(document: IncidentRule, *, by: str = actors.SYSTEM) -> IncidentRuleRow:
    """Draft a rule and put it in force, by the operator of the server."""
    row = incident_rules.draft(tenant=TENANT, document=document, actor=by)
    answer = incident_rules.activate(
        tenant=TENANT, name=row.name, version=row.version, reason="Test.", actor="user:0"
    )
    assert not isinstance(answer, Problem), answer
    return answer


def refuse(agent_id: str = "trader", *, code: str = "INVALID_JSON", times: int = 1) -> None:
    """Entries that the rule of `rule` counts, each in a transaction of its own."""

    def work() -> None:
        refused = events.RequestRefused(code=code, path="/x")
        stream = actors.agent(agent_id)
        ledger.append_to(tenant=TENANT, stream=stream, actor=stream, at=clock.now(), events=[refused])

    for _ in range(times):
        transactions.retry_on_conflict(work)


def walk() -> int:
    """Seal what was written, and let the rules look at it; how many incidents were opened."""
    sealing.seal_now()
    return rule_rounds.run()


def open_by(author: int, **changes: Any) -> Incident:
    """An incident that a person opens."""
    asked: dict[str, Any] = {
        "tenant": TENANT,
        "title": "Orders go to the wrong account",
        "severity": Severity.SEV2,
        "author": author,
        "lead": author,
        **changes,
    }
    answer = incidents.open_incident(**asked)
    assert not isinstance(answer, Problem), answer
    return answer


def move(incident: Incident, to: IncidentState, author: int) -> Incident | Problem:
    """Move an incident, with a reason."""
    return incidents.move(tenant=TENANT, incident_id=incident.pk, to=to, reason="As agreed.", author=author)


def close(incident: Incident, author: int) -> Incident | Problem:
    """Resolve and close."""
    resolved = move(incident, IncidentState.RESOLVED, author)
    assert not isinstance(resolved, Problem), resolved
    return move(incident, IncidentState.CLOSED, author)


def save(incident: Incident, author: int, *, after: int = 0, body: PostMortemBody = BODY) -> Any:
    """Save a version of the post-mortem."""
    return post_mortems.save(
        tenant=TENANT, incident_id=incident.pk, body=body, after_version=after, author=author
    )


def kinds(incident: Incident) -> list[str]:
    """The kinds of the incident's entries, in order."""
    rows = LedgerEntry.objects.filter(stream=actors.incident(incident.pk)).order_by("seq")
    return list(rows.values_list("kind", flat=True))


def write(*, author: int, other: int, dfid: UUID) -> Incident:
    """Rules in each state, an incident of a rule that others joined, and a closed one with all its parts."""
    usual: dict[str, Any] = {"tenant": TENANT, "actor": actors.SYSTEM}
    incident_rules.draft(document=rule(name="never-active"), **usual)
    activate(rule(name="was-active"))
    incident_rules.switch_off(name="was-active", version=1, reason="Too many.", **usual)
    activate(rule())
    refuse(times=2)
    assert walk() == 1
    refuse()
    walk()
    incident = open_by(author, links=[Wanted(LinkKind.FLOW, str(dfid))], note="It began at nine.")
    given: dict[str, Any] = {"tenant": TENANT, "incident_id": incident.pk, "author": author}
    for wanted in (Wanted(LinkKind.PERSON, f"user:{other}"), Wanted(LinkKind.PERSON, f"user:{author}")):
        assert incidents.link(wanted=wanted, **given) is None
    wrong = incident.links.get(ref=f"user:{other}")
    assert incidents.unlink(link_pk=wrong.pk, reason="Not involved.", **given) is None
    assert incidents.note(text="The broker confirms.", **given) is None
    for text in ("Add the check", "Test the check"):
        due = date(2030, 1, 2)
        assert incidents.add_action(text=text, owner=other, due_on=due, **given) is None
    action = incident.actions.order_by("-pk")[0]
    assert incidents.finish_action(action_id=action.pk, **given) is None
    edited = incidents.edit(
        title="Orders went to another account", severity=Severity.SEV1, lead=author, reason="Worse.", **given
    )
    assert not isinstance(edited, Problem), edited
    save(incident, author)
    save(incident, author, after=1)
    assert not isinstance(move(incident, IncidentState.MITIGATED, author), Problem)
    closed = close(incident, author)
    assert not isinstance(closed, Problem), closed
    return closed
