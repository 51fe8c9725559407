"""The page of a case whose verdict was rewritten, and by whose bounds it judges facts that moved."""

from typing import Any

import pytest

from audit.access.roles import Role
from runtime.flows.models import Verdict
from runtime.registry.models import Bundle, PolicyKind
from tests.support import factories, gate_cases
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
BANNER = "This row does not match the ledger."


def rewrite_bundle() -> None:
    Bundle.objects.update(body=b"no json")


def rewrite_answer() -> None:
    Verdict.objects.update(body=b"no json")


def delete_verdict() -> None:
    Verdict.objects.all().delete()


@pytest.mark.parametrize("change", [rewrite_bundle, rewrite_answer, delete_verdict])
def test_the_page_of_a_rewritten_verdict_says_so(desk: factories.Desk, change: Any) -> None:
    escalation = desk.escalate()
    client, path = sign_in(Role.OPERATOR), f"/escalations/{escalation.pk}/"
    assert BANNER not in text_of(client, path)
    change()
    page = text_of(client, path)
    assert BANNER in page
    assert "The stored verdict was changed" in page
    assert "Facts and constraints" in page  # the evidence is that which was recorded


def test_a_fact_is_within_the_bounds_of_the_kind_that_is_active(desk: factories.Desk) -> None:
    escalation = desk.escalate()
    client, path = sign_in(Role.OPERATOR), f"/escalations/{escalation.pk}/"
    factories.write("price.AAPL", 18_951)
    assert "now 18,951, within limits" in text_of(client, path)
    exact = ["price.${params.symbol}", "market.state"]
    factories.policy_kind(gate_cases.kind(version="1.3.0", depends_on=exact))
    assert "changed to 18,951" in text_of(client, path)


def test_without_an_active_kind_no_fact_is_within_bounds(desk: factories.Desk) -> None:
    escalation = desk.escalate()
    factories.write("price.AAPL", 18_951)
    PolicyKind.objects.update(active=False)
    page = text_of(sign_in(Role.OPERATOR), f"/escalations/{escalation.pk}/")
    assert "changed to 18,951" in page
