"""Limits of authority on the page of people, and what the decision page says above one."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from escalations.models import Decision
from runtime.registry.models import AuthorityLimitRow
from tests.registry.test_authority import USD, with_units
from tests.support import factories, markup
from tests.web.test_pages import text_of
from tests.web.test_separation_of_duty import BACKEND, decide

pytestmark = pytest.mark.django_db
KIND = "ADJUST_POSITION"


def browser(account: User) -> Client:
    client = Client()
    client.force_login(account, backend=BACKEND)
    return client


@pytest.fixture
def admin(db: None) -> Client:
    return browser(factories.user("ada", "admin"))


def put(client: Client, **fields: str) -> int:
    form = {"holder": "role:operator", "kind": KIND, "limit": "100000", "unit": "", "limit_impact": ""}
    return client.post("/people/limits/", {**form, **fields}).status_code


def test_an_admin_sets_a_limit_sees_it_and_removes_it(admin: Client) -> None:
    factories.desk(kind=with_units())
    assert 'name="limit"' in text_of(admin, "/people/")
    assert put(admin) == 302
    row = AuthorityLimitRow.objects.get()
    assert (row.holder, row.policy_kind, row.unit, row.amount) == ("role:operator", KIND, USD, 100_000)
    page = text_of(admin, "/people/")
    assert "1,000.00 USD" in page
    sent = {"holder": row.holder, "kind": KIND, "unit": USD, "limit": "100000", "limit_impact": ""}
    assert admin.post("/people/limits/remove/", sent).status_code == 302
    assert not AuthorityLimitRow.objects.exists()
    assert admin.post("/people/limits/remove/", sent).status_code == 404


def test_a_limit_of_impact_and_one_of_a_person(admin: Client) -> None:
    factories.desk(kind=with_units())
    olivia = factories.user("olivia")
    assert put(admin, limit="", limit_impact="LOW_IMPACT") == 302
    assert put(admin, holder=f"user:{olivia.pk}", limit="5,000") == 302
    page = text_of(admin, "/people/")
    assert "<bdi>olivia</bdi>" in page
    assert "50.00 USD" in page
    assert AuthorityLimitRow.objects.get(amount=None).impact == "LOW_IMPACT"


@pytest.mark.parametrize(
    "fields",
    [
        {"limit": ""},
        {"limit": "1.5"},
        {"limit": "many"},
        {"limit_impact": "LOW_IMPACT"},
        {"limit": "", "limit_impact": "HUGE"},
        {"holder": "nobody"},
        {"kind": "NO_KIND"},
        {"unit": "cents EUR"},
    ],
)
def test_a_form_that_names_no_limit_is_refused(admin: Client, fields: dict[str, str]) -> None:
    factories.desk(kind=with_units())
    assert put(admin, **fields) == 422
    assert not AuthorityLimitRow.objects.exists()


def test_a_kind_that_counts_in_several_units_needs_one_named(admin: Client) -> None:
    schema: Any = with_units().params_schema
    shares = {**schema["properties"]["quantity"], "x-unit": "shares"}
    both = {**schema, "properties": {**schema["properties"], "quantity": shares}}
    factories.desk(kind=with_units().model_copy(update={"params_schema": both}))
    assert put(admin) == 422
    assert put(admin, unit="shares") == 302


def test_only_admins_set_limits(db: None) -> None:
    factories.desk(kind=with_units())
    client = browser(factories.user("olivia", "operator", "senior"))
    assert put(client) == 403
    assert 'name="limit"' not in text_of(client, "/people/")


def test_the_decision_page_and_the_post_say_the_same(admin: Client) -> None:
    case = factories.desk(kind=with_units()).escalate()
    factories.user("dana", "senior")
    client = browser(factories.user("olivia"))
    put(admin)
    words = "Above your limit of 1,000.00 USD for ADJUST_POSITION. dana may decide."
    page = text_of(client, f"/escalations/{case.pk}/")
    assert words in page
    answer = decide(client, case)
    assert answer.status_code == 403
    assert words in markup.tight(answer.content.decode())
    assert not Decision.objects.exists()
