"""The pages of precedents: what could be a rule, on what it rests, and the draft that follows."""

import pytest
from django.test import Client

from audit.access.roles import Role
from escalations import precedents
from escalations.contracts import Action
from escalations.services import strategy_rules
from runtime.contracts.problem import Problem
from runtime.registry.models import PolicyKind
from tests.support import factories, gate_cases
from tests.support.own_words import stands
from tests.web.test_pages import code_in, sign_in, text_of

pytestmark = pytest.mark.django_db
LIMIT = {
    "id": "max_notional",
    "value": "params.notional_cents",
    "limit": "manifest.limits.max_notional_cents",
}
IN_DOLLARS = {"limits": [{**LIMIT, "unit": "cents USD"}]}


@pytest.fixture
def digest(monkeypatch: pytest.MonkeyPatch) -> str:
    """Two people aborted what two cases asked for."""
    monkeypatch.setattr(precedents, "LEAST_CASES", 2)
    factories.configure_target()
    desk = factories.desk()
    for name in ("pia", "paul"):
        assert not isinstance(factories.decide(desk.escalate(), factories.user(name), Action.ABORT), Problem)
    (offer,) = strategy_rules.list_offers(tenant="default")
    return offer.precedent.digest


def draft(client: Client, digest: str) -> int:
    return client.post(f"/precedents/{digest}/draft/").status_code


def test_without_any_the_page_says_so(db: None) -> None:
    page = text_of(sign_in(Role.AUDITOR), "/precedents/")
    assert "Nothing was decided the same way often enough" in page
    assert code_in(page) == []


def test_an_admin_drafts_it_and_sees_what_became_of_it(digest: str) -> None:
    client = sign_in(Role.ADMIN)
    assert f"/precedents/{digest}/" in text_of(client, "/precedents/")
    page = text_of(client, f"/precedents/{digest}/")
    assert code_in(page) == []
    for said in (
        "limits.max_notional.on_exceed",
        "<dt>Now</dt><dd>ESCALATE</dd>",
        "<dt>Then</dt><dd>REJECT</dd>",
        "2 by 2",
        "pia",
        "paul",
        "Draft this rule",
    ):
        assert said in " ".join(page.split()), said
    answer = client.post(f"/precedents/{digest}/draft/")
    row = PolicyKind.objects.get(active=False)
    assert answer["Location"] == f"/kinds/{row.kind}/?version={row.version}"
    listed = text_of(client, "/precedents/")
    assert code_in(listed) == []
    assert "2 cases by 2 people" in listed
    assert "Draft" in listed
    assert client.get(answer["Location"]).status_code == 200


@pytest.mark.parametrize("role", [Role.AUDITOR, Role.OPERATOR])
def test_others_see_it_and_cannot_draft_it(digest: str, role: Role) -> None:
    client = sign_in(role)
    assert "Draft this rule" not in text_of(client, f"/precedents/{digest}/")
    assert draft(client, digest) == 403
    assert PolicyKind.objects.count() == 1


@pytest.mark.parametrize("digest", ["x", "0" * 64, "%00"])
def test_what_is_no_precedent_is_not_there(db: None, digest: str) -> None:
    client = sign_in(Role.ADMIN)
    assert client.get(f"/precedents/{digest}/").status_code == 404
    assert draft(client, digest) in (404, 409)


def test_amounts_of_a_limit_are_shown_in_their_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precedents, "LEAST_CASES", 2)
    desk = factories.desk(kind=gate_cases.kind(**IN_DOLLARS))
    for name in ("pia", "paul"):
        case = desk.escalate()
        assert not isinstance(factories.decide(case, factories.user(name)), Problem)
        factories.cancel(desk, case)
    (offer,) = strategy_rules.list_offers(tenant="default")
    client = sign_in(Role.AUDITOR)
    for path in ("/precedents/", f"/precedents/{offer.precedent.digest}/"):
        page = " ".join(text_of(client, path).split())
        assert "1,000.00 USD" in page, path
        assert "1,500.00 USD" in page, path
        assert not stands("150000", page), path
