"""What stands out beside earlier proposals: asked before, look-alike names, an unusual rate."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from audit.access.roles import Role
from escalations import patterns
from escalations.contracts import Action
from escalations.models import Escalation
from runtime.core import clock
from runtime.flows.models import Proposal
from runtime.kernel.lookalikes import Why
from tests.support import factories, gate_cases, markup
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
SCHEMA = gate_cases.KIND["params_schema"]
WITH_PAYEE = {**SCHEMA, "properties": {**SCHEMA["properties"], "payee": {"type": "string", "maxLength": 80}}}


@pytest.fixture
def desk() -> factories.Desk:
    return factories.desk(
        kind=gate_cases.kind(params_schema=WITH_PAYEE),
        manifest=gate_cases.manifest(escalations_per_hour=99, proposals_per_minute=99),
    )


def pay(desk: factories.Desk, payee: str = "acme-corp", **params: Any) -> dict[str, Any]:
    return desk.propose(desk.open(), params={**gate_cases.PARAMS, "payee": payee, **params})


def asked(desk: factories.Desk, payee: str = "acme-corp", **params: Any) -> Escalation:
    return desk.escalate(params={**factories.OVER_LIMIT, "payee": payee, **params})


def found(escalation: Escalation, *, at: datetime | None = None) -> patterns.Patterns:
    return patterns.find(escalation=escalation, shown=factories.evidence_of(escalation), at=at or clock.now())


def test_names_that_look_like_an_often_used_one(desk: factories.Desk) -> None:
    for _ in range(3):
        pay(desk)
    escalation = asked(desk, payee="acrne-corp")
    (suspect,) = found(escalation).suspects
    assert (suspect.param, suspect.name, suspect.is_mixed) == ("payee", "acrne-corp", False)
    assert [(item.name, item.uses, item.why) for item in suspect.like] == [
        ("acme-corp", 3, Why.LOOKS_THE_SAME)
    ]
    page = markup.words(text_of(sign_in(Role.OPERATOR), f"/escalations/{escalation.pk}/"))
    assert "The name acrne-corp can be taken for another one" in page
    assert "acme-corp , used 3 times: looks the same in other characters." in page


def test_a_mixed_name_is_named_without_an_earlier_one_and_its_markup_is_text(desk: factories.Desk) -> None:
    escalation = asked(desk, payee="<b>\u0430cme")
    (suspect,) = found(escalation).suspects
    assert (suspect.is_mixed, suspect.like) == (True, [])
    page = text_of(sign_in(Role.OPERATOR), f"/escalations/{escalation.pk}/")
    assert "mixes letters of several scripts" in page
    assert "<b>\u0430cme" not in page


def test_a_name_of_a_list_and_one_used_in_one_flow_only_are_left_alone(desk: factories.Desk) -> None:
    pay(desk)
    assert found(asked(desk, payee="acrne-corp")).suspects == []
    assert found(asked(desk)).suspects == []


def test_the_same_asked_before_and_how_it_ended(desk: factories.Desk) -> None:
    aborted = asked(desk)
    factories.decide(aborted, factories.user(), Action.ABORT)
    pay(desk)
    pay(desk, payee="another")
    escalation = asked(desk)
    seen = found(escalation)
    assert (seen.same, seen.similar) == (1, 1)
    first, second = seen.earlier
    assert (first.dfid, first.same, first.flow_state, first.outcome) == (
        aborted.flow_id,
        True,
        "ABORTED",
        "",
    )
    assert not second.same
    page = markup.words(text_of(sign_in(Role.OPERATOR), f"/escalations/{escalation.pk}/"))
    assert "Asked 1 time before with the same parameters, and 1 more with other numbers." in page
    assert "as of now, not part of the evidence" in page


def test_what_came_later_and_what_cannot_be_read_was_not_asked_before(desk: factories.Desk) -> None:
    pay(desk, notional_cents=1)
    escalation = asked(desk)
    pay(desk)
    assert (found(escalation).same, found(escalation).similar) == (0, 1)
    Proposal.objects.exclude(flow=escalation.flow_id).update(body=b"\xff")
    assert (found(escalation).same, found(escalation).similar) == (0, 0)


def test_the_last_hour_beside_a_usual_one(desk: factories.Desk) -> None:
    old = [pay(desk) for _ in range(2)]
    now = clock.now()
    for answer, age in zip(old, (timedelta(days=8), timedelta(days=3)), strict=True):
        Proposal.objects.filter(flow=answer["dfid"]).update(received_at=now - age)
    for _ in range(4):
        pay(desk)
    escalation = asked(desk)
    rate = found(escalation).rate
    assert (rate.last_hour, rate.usual_tenths, rate.hours, rate.is_unusual) == (5, 0, 167, True)
    page = markup.words(text_of(sign_in(Role.OPERATOR), f"/escalations/{escalation.pk}/"))
    assert "Unusual rate 5 proposals of this kind by this agent in the last hour;" in page
    assert "usually less than 0.1 an hour, over the last 6 days." in page


def test_a_new_agent_has_no_usual_hour(desk: factories.Desk) -> None:
    rate = found(asked(desk)).rate
    assert (rate.last_hour, rate.usual_tenths, rate.is_least) == (1, None, False)


def test_a_long_history_costs_no_more(desk: factories.Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "COMPARED", 2)
    monkeypatch.setattr(patterns, "COUNTED", 3)
    escalation = asked(desk)
    for _ in range(6):
        pay(desk)
    last = asked(desk)
    with CaptureQueriesContext(connection) as few:
        found(escalation)
    with CaptureQueriesContext(connection) as many:
        seen = found(last)
    assert len(many) <= len(few) + 1
    assert all(
        "LIMIT" in query["sql"] or "EXISTS" in query["sql"] for query in many if "FROM" in query["sql"]
    )
    assert (seen.similar, seen.rate.last_hour, seen.rate.is_least) == (2, 3, True)
