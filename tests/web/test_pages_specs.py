"""The catalogue of decision specs: what each allows and asks for, and what it decided, by index."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from audit.access.roles import Role
from audit.models import DecisionRecord, RecordTerm
from audit.records import queries
from escalations import decision_specs
from escalations.decision_specs import SpecFilter
from runtime.core import clock
from runtime.registry.models import PolicyKind
from tests.support import api_client, factories, gate_cases
from tests.web.test_pages import code_in, sign_in, text_of

pytestmark = pytest.mark.django_db
KIND = "ADJUST_POSITION"
SPEC: dict[str, Any] = {
    "red_lines": [{"id": "L_NEVER", "forbid": "params.quantity > 100000", "message": "Never so many"}],
    "required_evidence": [{"fact": "price.${params.symbol}", "max_age_s": 600}],
    "allowed_outcomes": ["filled", "partly"],
    "outcome": "receipt.status == 'FILLED' ? 'filled' : 'partly'",
    "gate_id": "GATE_DESK",
    "approval_mode": "destructive",
    "subjects": ["order:${params.symbol}"],
    "jurisdiction": ["EU", "US-NY"],
}


@pytest.fixture
def desk(db: None) -> factories.Desk:
    """A desk whose kind has two flows in front of people, one of them overridden, and one refused."""
    made = factories.desk(kind=gate_cases.kind(**SPEC))
    made.escalate()
    decided = factories.decide(made.escalate(), factories.user("olivia", "operator", groups=("GATE_DESK",)))
    assert not hasattr(decided, "code"), decided
    made.propose(made.open(), params={})
    return made


def named(outcome: str, *, days_ago: int = 0) -> None:
    """The end of a flow that came to this outcome of its kind."""
    row = DecisionRecord.objects.latest("pk")
    row.pk, row.record_id, row.seq = None, f"{row.record_id}{RecordTerm.objects.count()}", row.seq + 1000
    row.at = clock.now() - timedelta(days=days_ago)
    row.save(force_insert=True)
    RecordTerm.objects.create(tenant="default", name="outcome", value=outcome, record=row.pk)


def test_the_page_says_what_a_spec_asks_for_and_what_it_decided(desk: factories.Desk) -> None:
    page = text_of(sign_in(Role.OPERATOR), "/specs/")
    assert code_in(page) == []
    for said in ("L_NEVER", "Never so many", "fact:price.${params.symbol}", "filled", "GATE_DESK", "US-NY"):
        assert said in page, said
    assert "One person, cannot be undone" in page
    assert "order:${params.symbol}" in page
    assert f'href="/kinds/{KIND}/"' in page
    assert f"/records/?decision_key={KIND}" in page
    assert re.search(r"2 of 3 \(67 %\)", page)
    assert re.search(r"1 of 3 \(33 %\)", page)


def test_counts_are_of_the_last_thirty_days(desk: factories.Desk) -> None:
    named("filled")
    named("filled", days_ago=40)
    named("partly")
    found = decision_specs.search(tenant="default", wanted=SpecFilter(), at=clock.now())
    (spec,) = found.specs
    assert spec.activity.by_outcome == {"filled": 1, "partly": 1}
    later = decision_specs.search(tenant="default", wanted=SpecFilter(), at=clock.now() + timedelta(days=31))
    assert (later.specs[0].activity.flows, later.specs[0].activity.overridden) == (0, 0)


def test_the_filter_is_in_the_address(desk: factories.Desk) -> None:
    client, agent = sign_in(Role.AUDITOR), desk.again()
    for asked in ("", "?q=adjust", "?q=%00", "?approval_mode=destructive", f"?agent_id={agent.agent_id}"):
        page = text_of(client, f"/specs/{asked}")
        assert f'id="spec-{KIND}"' in page, asked
        assert agent.owner in page
    for asked in ("?q=nothing", "?approval_mode=two_persons", "?agent_id=momentum", f"?after={KIND}"):
        assert f'id="spec-{KIND}"' not in text_of(client, f"/specs/{asked}"), asked


def test_a_rewritten_kind_is_named_and_nothing_of_it_is_shown(desk: factories.Desk) -> None:
    row = PolicyKind.objects.get(active=True)
    PolicyKind.objects.filter(pk=row.pk).update(
        body=bytes(row.body).replace(b"Never so many", b"Take it easy!")
    )
    page = text_of(sign_in(Role.AUDITOR), "/specs/")
    assert "does not match the ledger" in page
    assert "Take it easy" not in page


def test_auditors_read_the_same_by_the_api(desk: factories.Desk) -> None:
    named("filled")
    answer = api_client.Caller(api_client.auditor_key()).get("/audit/specs?approval_mode=destructive").ok()
    (spec,) = answer["specs"]
    assert (spec["decision_key"], spec["gate_id"]) == (KIND, "GATE_DESK")
    assert spec["red_lines"][0]["id"] == "L_NEVER"
    assert spec["last_30_days"]["by_status"]["ESCALATED"] == 2
    assert spec["last_30_days"]["by_outcome"] == {"filled": 1}
    assert answer["next"] is None
    assert api_client.Caller("").get("/audit/specs").status == 401


def test_records_are_found_by_the_outcome_of_their_kind(desk: factories.Desk) -> None:
    named("filled")
    wanted = queries.RecordFilter(outcome="filled", decision_key=KIND)
    assert len(queries.search(tenant="default", wanted=wanted).rows) == 1
    other = queries.RecordFilter(outcome="partly")
    assert queries.search(tenant="default", wanted=other).rows == []
    page = text_of(sign_in(Role.AUDITOR), "/records/?outcome=partly")
    assert "data-row=" not in page


def test_the_counts_are_read_by_their_index(desk: factories.Desk) -> None:
    """What a period decided costs as much as the period, not as the table."""
    with CaptureQueriesContext(connection) as asked:
        decision_specs.search(tenant="default", wanted=SpecFilter(), at=clock.now())
    counting = [query["sql"] for query in asked if "COUNT" in query["sql"]]
    assert len(counting) == 4
    if connection.vendor == "sqlite":
        for sql in counting:
            with connection.cursor() as cursor:
                cursor.execute(f"EXPLAIN QUERY PLAN {sql}")
                plan = [row[-1] for row in cursor.fetchall()]
            assert not [line for line in plan if line.startswith("SCAN")], plan


def test_the_queries_do_not_grow_with_the_records(desk: factories.Desk) -> None:
    with CaptureQueriesContext(connection) as few:
        decision_specs.search(tenant="default", wanted=SpecFilter(), at=clock.now())
    for _ in range(5):
        named("filled")
    with CaptureQueriesContext(connection) as many:
        decision_specs.search(tenant="default", wanted=SpecFilter(), at=clock.now())
    assert len(many) <= len(few)
