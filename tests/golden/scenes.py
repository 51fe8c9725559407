"""The flows whose whole streams are kept for ever, carried out by the product's own services in a database.

Add one here, then run `python -m tests.golden.record_streams`. A stream that was recorded is never changed:
its file is compared, not its scene here, which goes on with the product.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import pytest
from django.conf import settings
from django.contrib.auth.models import User

from audit import actors, canonical, signing
from audit.models import DecisionRecord, LedgerEntry
from audit.packs import contents
from audit.records import emission
from audit.sealing import merkle
from audit.sealing.merkle import Frontier
from escalations.models import Escalation
from runtime.contracts.incident import LinkKind
from runtime.contracts.problem import Problem
from runtime.flows.models import Flow, Intent, Outcome
from runtime.flows.services import flows
from runtime.incidents.services.incidents import Wanted
from runtime.maintenance.services import scoring, sealing
from tests.golden import stream
from tests.golden.stream import Stream
from tests.support import factories, fake_target, incident_story, trading_desk
from tests.support.fake_target import REFUSE, Book
from tests.support.trading_desk import TENANT, Desk

# Above the first number a person is asked, above the second nothing helps.
ASKED_ABOVE, REFUSED_ABOVE = 5, 50
_RULES: Final = f"""\
    subjects: ["symbol:${{params.symbol}}"]
    scorecard: {{targets: {{wall_clock_s: 3600}}}}
    rules:
      - {{id: R_LARGE, require: "params.quantity <= {ASKED_ABOVE}", on_fail: ESCALATE, message: Large}}
      - {{id: R_HUGE, require: "params.quantity <= {REFUSED_ABOVE}", message: Too large}}
    impact:"""


@dataclass(frozen=True)
class Stage:
    """Where scenes are played: the agent, the target that it buys from, and the person who decides."""

    desk: Desk
    target: Book
    person: User


@dataclass(frozen=True)
class Played:
    """The flow of a scene, and the other streams that belong to it."""

    dfid: UUID
    others: tuple[str, ...] = ()


def _accepted(stage: Stage) -> Played:
    """Three steps that all take effect."""
    intent_id = stage.desk.accept()
    fake_target.walk(intent_id)
    return Played(trading_desk.flow_of(intent_id).dfid)


def _rejected(stage: Stage) -> Played:
    """A rule refuses, and the agent gives up."""
    verdict = trading_desk.propose(stage.desk, quantity=REFUSED_ABOVE + 1)
    assert verdict["verdict"] == "REJECT", verdict
    dfid = UUID(verdict["dfid"])
    ended = flows.cancel(agent=stage.desk.agent, dfid=dfid, reason="no longer wanted")
    assert not isinstance(ended, Problem), ended
    return Played(dfid)


def _overridden(stage: Stage) -> Played:
    """A person is asked and overrides; then all of it takes effect."""
    verdict = trading_desk.propose(stage.desk, quantity=ASKED_ABOVE + 1)
    assert verdict["verdict"] == "ESCALATE", verdict
    escalation = Escalation.objects.get(escalation_id=verdict["escalation_id"])
    decided = factories.decide(escalation, stage.person)
    assert not isinstance(decided, Problem), decided
    fake_target.walk(Intent.objects.get(flow=escalation.flow_id).pk)
    return Played(escalation.flow_id)


def _undone(stage: Stage) -> Played:
    """The last of three steps is refused, so the others are undone."""
    stage.target.faults["/ship"] = [REFUSE]
    played = _accepted(stage)
    stage.target.mend()
    return played


def _of_an_incident(stage: Stage) -> Played:
    """A person links the flow to an incident, and closes that with a post-mortem."""
    played = _accepted(stage)
    author = stage.person.pk
    incident = incident_story.open_by(author, links=[Wanted(LinkKind.FLOW, str(played.dfid))])
    incident_story.save(incident, author)
    closed = incident_story.close(incident, author)
    assert not isinstance(closed, Problem), closed
    return Played(played.dfid, (actors.incident(incident.pk),))


SCENES: Final[Mapping[str, Callable[[Stage], Played]]] = {
    "accepted": _accepted,
    "rejected": _rejected,
    "overridden": _overridden,
    "undone": _undone,
    "of-an-incident": _of_an_incident,
}


@contextmanager
def stage() -> Iterator[Stage]:
    """An agent and its target, in the database that Django is connected with."""
    with pytest.MonkeyPatch.context() as patch, fake_target.opened() as target:
        patch.setattr(settings, "DIR_EGRESS_ALLOW", ["127.0.0.1"])
        patch.setattr(trading_desk, "PACK", fake_target.pack().replace("    impact:", _RULES))
        desk = trading_desk.open_desk(base_url=target.base_url)
        yield Stage(desk, target, factories.user("olivia"))


def play(name: str, on: Stage) -> Stream:
    """Play a scene to its end, its scorecard included, and take down what was stored."""
    played = SCENES[name](on)
    scoring.score_due()
    sealing.seal_now()
    return _taken_down(played)


def _taken_down(played: Played) -> Stream:
    found = contents.read(tenant=TENANT, dfid=played.dfid)
    assert found is not None
    assert not found.absent
    rows = [
        row
        for name in (str(played.dfid), *played.others)
        for row in LedgerEntry.objects.filter(tenant=TENANT, stream=name).order_by("seq")
    ]
    frontier = Frontier()
    for row in rows:
        frontier.push(merkle.hash_leaf(bytes(row.hash)))
    flow = Flow.objects.get(pk=played.dfid)
    return Stream(
        dfid=str(flow.dfid),
        public_key=signing.signer().public_key.hex(),
        entries=[{"body": bytes(row.body).decode(), "hash": bytes(row.hash).hex()} for row in rows],
        root=frontier.root().hex(),
        objects={digest: content.decode() for digest, content in found.objects.items()},
        payloads={
            commitment: {"salt": (held.salt or b"").hex(), "body": (held.body or b"").decode()}
            for commitment, held in found.payloads.items()
        },
        records=[_record(row) for row in DecisionRecord.objects.filter(dfid=flow.dfid).order_by("seq")],
        outcomes={
            str(row.intent_id): _outcome(row)
            for row in Outcome.objects.filter(intent__flow=flow).order_by("pk")
        },
    )


def _record(row: DecisionRecord) -> dict[str, Any]:
    body = bytes(row.body).decode()
    terms = sorted(list(term) for term in emission.terms_of(canonical.decode(body.encode())))
    # A row is kept by the last entry that it is folded from; its own entry follows.
    return {"seq": row.seq + 1, "body": body, "signature": bytes(row.signature).hex(), "terms": terms}


def _outcome(row: Outcome) -> dict[str, Any]:
    held = {name: bytes(getattr(row, name)).decode() for name in stream.OUTCOME_BYTES}
    return {**held, **{name: getattr(row, name) for name in stream.OUTCOME_VALUES}}
