"""Four eyes: another admin than the author, unless there is none."""

from datetime import timedelta

import pytest
from django.db.models import F

from audit.access.roles import Role
from runtime.contracts.problem import Problem
from runtime.registry.models import Membership
from runtime.registry.services import dual_control, users
from tests.support import factories

pytestmark = pytest.mark.django_db
WEEK = timedelta(days=7)


def test_another_than_the_author_may() -> None:
    assert dual_control.check(author="user:1", actor="user:2", what="it") == dual_control.Approved(solo=False)
    assert dual_control.check(author="system", actor="user:2", what="it") == dual_control.Approved(solo=False)


def test_the_only_admin_may_and_it_is_recorded() -> None:
    ada = factories.user("ada", "admin")
    factories.user("otto", "operator")
    me = f"user:{ada.pk}"
    assert dual_control.check(author=me, actor=me, what="it") == dual_control.Approved(solo=True)


def test_the_author_may_not_where_another_admin_could() -> None:
    ada, _ = factories.user("ada", "admin"), factories.user("alan", "admin")
    me = f"user:{ada.pk}"
    refused = dual_control.check(author=me, actor=me, what="TRADE 1.1.0")
    assert isinstance(refused, Problem)
    assert (refused.status, refused.code) == (403, "SEPARATION_OF_DUTY")
    assert refused.detail == "You wrote TRADE 1.1.0: another admin must activate it."


def test_whoever_was_an_admin_within_seven_days_still_counts() -> None:
    ada = factories.user("ada", "admin")
    users.add(
        tenant="default", name="gone", password="correct horse battery", roles=[Role.ADMIN], actor="system"
    )
    users.deactivate(tenant="default", name="gone", actor=f"user:{ada.pk}")
    me = f"user:{ada.pk}"
    refused = dual_control.check(author=me, actor=me, what="it")
    assert isinstance(refused, Problem)
    assert "The last other admin left less than 7 days ago: you may do it from " in refused.detail
    Membership.objects.update(since=F("since") - WEEK, until=F("until") - WEEK)
    assert dual_control.check(author=me, actor=me, what="it") == dual_control.Approved(solo=True)
