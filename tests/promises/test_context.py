"""A context is frozen, belongs to one flow, and is what its proposal is judged against."""

import pytest

from runtime.contexts.models import Snapshot
from runtime.state.services import facts
from tests.support import factories
from tests.support.end_to_end import Console

pytestmark = pytest.mark.django_db


def test_the_context_of_another_flow_is_refused(desk: Console) -> None:
    mine, other = desk.open(), desk.open()
    verdict = desk.send(mine, desk.body(other)).ok()
    assert (verdict["verdict"], verdict["reasons"][0]["code"]) == ("REJECT", "CONTEXT_UNKNOWN")


def test_a_made_up_context_is_refused(desk: Console) -> None:
    assert desk.propose(context_ref="c" * 64)["reasons"][0]["code"] == "CONTEXT_UNKNOWN"


def test_what_was_shown_stays_as_it_was(desk: Console) -> None:
    dfid = desk.open()
    shown = desk.agent.post(f"/flows/{dfid}/context").ok(201)
    body = bytes(Snapshot.objects.get(context_ref=shown["context_ref"]).body)
    facts.write(tenant=factories.TENANT, path="price.ABC", value=105, writer="feed:x", expected_version=None)
    assert bytes(Snapshot.objects.get(context_ref=shown["context_ref"]).body) == body
    again = desk.agent.post(f"/flows/{dfid}/context").ok(201)
    assert (shown["context"]["facts"]["price"]["ABC"], again["context"]["facts"]["price"]["ABC"]) == (
        100,
        105,
    )


def test_it_holds_what_the_kinds_depend_on_and_what_is_left_of_the_budget(desk: Console) -> None:
    context = desk.agent.post(f"/flows/{desk.open()}/context").ok(201)["context"]
    assert set(context["facts"]) == {"market", "price"}
    assert context["mission"]
    assert context["budget"]
