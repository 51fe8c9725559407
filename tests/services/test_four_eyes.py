"""Four eyes: another admin than the author, unless there is none."""

import pytest

from runtime.contracts.problem import Problem
from runtime.services import four_eyes
from tests import factories

pytestmark = pytest.mark.django_db


def test_another_than_the_author_may() -> None:
    assert four_eyes.ask(author="user:1", actor="user:2", what="it") == four_eyes.Agreed(solo=False)
    assert four_eyes.ask(author="system", actor="user:2", what="it") == four_eyes.Agreed(solo=False)


def test_the_only_admin_may_and_it_is_recorded() -> None:
    ada = factories.user("ada", "admin")
    factories.user("otto", "operator")
    me = f"user:{ada.pk}"
    assert four_eyes.ask(author=me, actor=me, what="it") == four_eyes.Agreed(solo=True)


def test_the_author_may_not_where_another_admin_could() -> None:
    ada, _ = factories.user("ada", "admin"), factories.user("alan", "admin")
    me = f"user:{ada.pk}"
    refused = four_eyes.ask(author=me, actor=me, what="TRADE 1.1.0")
    assert isinstance(refused, Problem)
    assert (refused.status, refused.code) == (403, "SEPARATION_OF_DUTY")
    assert refused.detail == "You wrote TRADE 1.1.0: another admin must activate it."


def test_an_admin_who_was_deactivated_does_not_count() -> None:
    ada, gone = factories.user("ada", "admin"), factories.user("gone", "admin")
    gone.is_active = False
    gone.save()
    me = f"user:{ada.pk}"
    assert four_eyes.ask(author=me, actor=me, what="it") == four_eyes.Agreed(solo=True)
