"""Limits of authority: who sets them, for whom, and that the ledger knows each."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from audit import canonical
from audit.models import LedgerEntry
from audit.verification import findings
from runtime.contracts.problem import Problem
from runtime.contracts.states import Impact
from runtime.kernel.authority_limits import AuthorityLimit
from runtime.registry.models import AuthorityLimitRow
from runtime.registry.queries import authority_rows
from runtime.registry.services import authority
from tests.support import factories, gate_cases

pytestmark = pytest.mark.django_db
KIND, USD = "ADJUST_POSITION", "cents USD"


@pytest.fixture(autouse=True)
def _desk(db: None) -> None:
    factories.desk(kind=with_units())


def with_units() -> Any:
    """The plain kind, whose amount is in cents."""
    schema = gate_cases.KIND["params_schema"]
    amount = {**schema["properties"]["notional_cents"], "x-unit": USD}
    changed = {**schema, "properties": {**schema["properties"], "notional_cents": amount}}
    return gate_cases.kind(params_schema=changed)


@pytest.fixture
def ada(db: None) -> User:
    """One of two admins, who decides too."""
    factories.user("bert", "admin")
    return factories.user("ada", "admin", "operator")


def limit(holder: str = "role:operator", **fields: Any) -> AuthorityLimit:
    return AuthorityLimit(**{"holder": holder, "policy_kind": KIND, "unit": USD, "amount": 100_000, **fields})


def put(account: User, wanted: AuthorityLimit, *, removes: bool = False) -> AuthorityLimit | Problem:
    actor = f"user:{account.pk}"
    if removes:
        return authority.remove_limit(tenant="default", held=wanted, actor=actor)
    return authority.set_limit(tenant="default", wanted=wanted, actor=actor)


def code(answer: AuthorityLimit | Problem) -> str:
    assert isinstance(answer, Problem), answer
    return answer.code


def entries() -> list[dict[str, Any]]:
    rows = LedgerEntry.objects.filter(kind="limit:changed").order_by("pk")
    return [canonical.decode(bytes(row.body))["payload"] for row in rows]


def unlike() -> list[str]:
    return [item.detail for item in findings.verify_all().findings if "limit" in item.detail]


def test_a_limit_is_set_changed_and_removed_with_an_entry_each(ada: User) -> None:
    for amount in (100_000, 50_000):
        assert put(ada, limit(amount=amount)) == limit(amount=amount)
    assert authority_rows.list_all(tenant="default") == (limit(amount=50_000),)
    bert = User.objects.get(username="bert")
    assert put(bert, limit(), removes=True) == limit()
    assert authority_rows.list_all(tenant="default") == ()
    assert [(item["amount"], item["solo"]) for item in entries()] == [
        (100_000, False),
        (50_000, False),
        (None, False),
    ]
    assert LedgerEntry.objects.filter(kind="limit:changed", stream=f"user:{ada.pk}").count() == 2
    assert unlike() == []


def test_amounts_of_several_units_and_the_impact_stand_beside_each_other(ada: User) -> None:
    put(ada, limit())
    put(ada, AuthorityLimit(holder="role:operator", policy_kind=KIND, impact=Impact.HIGH_IMPACT))
    assert len(authority_rows.list_all(tenant="default")) == 2
    assert unlike() == []


@pytest.mark.parametrize(
    "wanted",
    [
        limit("role:admin"),
        limit("role:nobody"),
        limit("user:999"),
        limit("user:x"),
        limit("user:" + "9" * 40),
        limit("desk"),
        limit(policy_kind="NO_KIND"),
        limit(unit="cents EUR"),
        limit(amount=-1),
        limit(amount=10**15),
        limit(amount=None),
    ],
)
def test_what_is_no_limit_is_refused(ada: User, wanted: AuthorityLimit) -> None:
    assert code(put(ada, wanted)) == "INVALID_REQUEST"
    assert entries() == []


def test_the_unit_is_that_of_the_kind_where_it_has_one(ada: User) -> None:
    found = authority.in_the_one_unit(tenant="default", wanted=limit(unit=""))
    assert found == limit()
    assert authority.in_the_one_unit(tenant="default", wanted=limit(unit="", policy_kind="NONE")) == limit(
        unit="", policy_kind="NONE"
    )


def test_no_admin_raises_their_own_limit_while_there_is_another(ada: User) -> None:
    put(ada, limit())
    me = f"user:{ada.pk}"
    for wanted in (limit(amount=100_001), limit(me, amount=100_001)):
        assert code(put(ada, wanted)) == "SEPARATION_OF_DUTY"
    assert code(put(ada, limit(), removes=True)) == "SEPARATION_OF_DUTY"
    assert isinstance(put(ada, limit(me, amount=5)), AuthorityLimit)
    assert code(put(ada, limit(me, amount=5), removes=True)) == "SEPARATION_OF_DUTY"
    bert = User.objects.get(username="bert")
    assert isinstance(put(bert, limit(me, amount=900_000)), AuthorityLimit)


def test_the_only_admin_may_and_the_record_says_so(db: None) -> None:
    sole = factories.user("sole", "admin", "operator")
    put(sole, limit())
    assert isinstance(put(sole, limit(amount=200_000)), AuthorityLimit)
    assert [item["solo"] for item in entries()] == [False, True]


def test_a_limit_that_is_not_there_cannot_be_removed(ada: User) -> None:
    assert code(put(ada, limit(), removes=True)) == "NOT_FOUND"


@pytest.mark.parametrize(
    "change",
    [
        {"amount": 100_001},
        {"unit": "shares"},
        {"policy_kind": ""},
        {"holder": "role:senior"},
        {"amount": None, "unit": "", "impact": "CRITICAL"},
        {"changed_by": "user:99"},
        {"changed_at": "2020-01-01T00:00:00Z"},
        {"tenant": "other"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_row_that_was_rewritten_is_found(ada: User, change: dict[str, Any]) -> None:
    put(ada, limit())
    assert unlike() == []
    AuthorityLimitRow.objects.update(**change)
    assert unlike() != []


def test_a_row_that_was_deleted_or_written_by_hand_is_found(ada: User) -> None:
    put(ada, limit())
    AuthorityLimitRow.objects.all().delete()
    assert unlike() != []
    put(ada, limit())
    assert unlike() == []
    row = AuthorityLimitRow.objects.get()
    row.pk, row.holder = None, "role:senior"
    row.save()
    assert unlike() != []


@pytest.mark.parametrize(
    "fields",
    [
        {"amount": 1, "impact": "LOW_IMPACT"},
        {"amount": None},
        {"amount": -1},
        {"amount": 1, "holder": "operator"},
        {"amount": None, "impact": "HUGE"},
    ],
)
def test_no_row_holds_what_is_no_limit(ada: User, fields: dict[str, Any]) -> None:
    put(ada, limit())
    row = AuthorityLimitRow.objects.get()
    row.pk, row.policy_kind = None, ""
    for name, value in {"unit": "", "impact": "", **fields}.items():
        setattr(row, name, value)
    with pytest.raises(IntegrityError), transaction.atomic():
        row.save()
