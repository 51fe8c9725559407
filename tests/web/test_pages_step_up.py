"""A password that was just given counts, an old one does not."""

import pytest
from django.test import Client

from audit.access.roles import Role
from tests.support import demo_scenes

pytestmark = pytest.mark.django_db


def test_a_fresh_password_opens_a_weighty_decision_and_an_old_one_does_not() -> None:
    demo_scenes.load_pack()
    said = demo_scenes.propose(
        demo_scenes.session_of("ambitious-trader"),
        "ADJUST_POSITION",
        demo_scenes.order("BUY", 40, "NVDA", 485600),
    )
    demo_scenes.add_user("olga", Role.OPERATOR, password=demo_scenes.PASSWORD)
    client, path = Client(), f"/escalations/{said['escalation_id']}/"
    client.post("/accounts/login/", {"login": "olga", "password": demo_scenes.PASSWORD})
    assert b"Confirm your password first" not in client.get(path).content
    session = client.session
    session["account_authentication_methods"][0]["at"] -= 301
    session.save()
    assert b"Confirm your password first" in client.get(path).content
    answer = client.post("/accounts/reauthenticate/", {"password": demo_scenes.PASSWORD, "next": path})
    assert answer["Location"] == path
    assert b"Confirm your password first" not in client.get(path).content
