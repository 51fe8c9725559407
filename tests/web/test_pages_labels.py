"""The labels of an agent on its page: shown with their sources and rules, and ended by an admin who may."""

import re

import pytest
from django.test import Client

from audit.access.roles import Role
from runtime.contracts.source_labels import LabelSource
from runtime.core import clock
from runtime.registry.models import Agent
from runtime.registry.services import agent_labels
from tests.support import factories, gate_cases, ledger_tampering
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
PAGE, END = "/agents/trader/", "/agents/trader/labels/end/"
RULES = [
    {"id": "outward", "after": ["untrusted", "secret"]},
    {"id": "no_trades", "after": ["secret"], "kinds": ["ADJUST_POSITION"], "on_fail": "REJECT"},
]


@pytest.fixture
def desk() -> factories.Desk:
    manifest = gate_cases.manifest(label_rules=RULES, labels_end_after_s={"secret": 3600})
    return factories.desk(manifest=manifest)


@pytest.fixture
def ada() -> Client:
    sign_in(Role.ADMIN, name="bob")
    return sign_in(Role.ADMIN, name="ada")


def give(desk: factories.Desk) -> None:
    agent_labels.receive(
        agent=desk.agent, labels=["secret", "untrusted"], because=LabelSource.MESSAGE, source="talk-1"
    )


def asked(client: Client, **changes: str) -> dict[str, str]:
    """The form as the page has it, filled in."""
    page = text_of(client, PAGE)
    panel = page[page.index('aria-labelledby="labels"') :]
    shown = re.search(r'name="shown" value="([0-9a-f]*)"', panel)
    assert shown is not None
    return {"shown": shown[1], "label": "untrusted", "reason": "The page was ours.", **changes}


def test_an_agent_without_labels_has_its_rules_shown(desk: factories.Desk, ada: Client) -> None:
    page = " ".join(re.sub(r"<[^>]+>", " ", text_of(ada, PAGE)).split())
    assert "It has received nothing that is labelled." in page
    assert "After untrusted or secret : all that has an effect is decided by a person ( outward )." in page
    assert "After secret : ADJUST_POSITION is rejected ( no_trades )." in page


def test_an_admin_ends_a_label(desk: factories.Desk, ada: Client) -> None:
    give(desk)
    page = text_of(ada, PAGE)
    assert "until an admin ends it" in page
    assert "a message" in page
    assert "talk-1" in page
    assert ada.post(END, asked(ada, reason="")).status_code == 422
    assert ada.post(END, asked(ada, label="")).status_code == 409
    assert ada.post(END, asked(ada, shown="0" * 64)).status_code == 409
    assert ada.post(END, asked(ada)).status_code == 302
    assert agent_labels.held_by(desk.again(), at=clock.now()) == ("secret",)
    assert "The page was ours." in text_of(ada, PAGE)


def test_who_owns_the_agent_is_told_why_not(desk: factories.Desk, ada: Client) -> None:
    give(desk)
    form = asked(ada)
    Agent.objects.update(owner="ada")
    page = text_of(ada, PAGE)
    assert "another admin must end its labels" in page
    assert END not in page
    assert ada.post(END, form).status_code == 403


def test_only_admins_end_labels_and_everybody_sees_them(desk: factories.Desk) -> None:
    give(desk)
    olivia = sign_in(Role.OPERATOR, name="olivia")
    page = text_of(olivia, PAGE)
    assert "untrusted" in page
    assert END not in page
    assert olivia.post(END, {"label": "secret", "shown": "", "reason": "x"}).status_code == 403
    assert olivia.get(END).status_code == 405


def test_labels_that_cannot_be_read_are_said_to_be(desk: factories.Desk, ada: Client) -> None:
    give(desk)
    ledger_tampering.execute(
        "UPDATE audit_ledgerentry SET body = %s WHERE kind = 'agent:labels_changed'", [b"{}"]
    )
    page = text_of(ada, PAGE)
    assert "The entry with the labels of this agent cannot be read." in page
    assert END not in page
