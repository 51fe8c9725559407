"""Parameters that are texts of several lines: MODIFY changes what a person changed, and nothing else."""

import re
from typing import Any

import pytest
from django.test import Client

from audit import canonical
from escalations.contracts import Action
from escalations.models import Escalation
from runtime.flows.models import Intent
from tests.support import factories, gate_cases
from tests.web.test_pages import code_in, text_of
from tests.web.test_separation_of_duty import BACKEND

pytestmark = pytest.mark.django_db
TEXTS = [
    "first line\nsecond line",
    "  blanks around  ",
    "a\r\nb\rc",
    "ends with one\n",
    "<b>\n</textarea>\n<i>",
]


@pytest.fixture
def client() -> Client:
    olivia = Client()
    olivia.force_login(factories.user(), backend=BACKEND)
    return olivia


def case_of(note: str) -> Escalation:
    schema: Any = gate_cases.kind().params_schema
    noted = {**schema, "properties": {**schema["properties"], "note": {"type": "string"}}}
    desk = factories.desk(kind=gate_cases.kind(params_schema=noted))
    return desk.escalate(params={**factories.OVER_LIMIT, "note": note})


def sent_by_a_browser(page: str) -> str:
    """What a browser sends of the field: the ends of lines as two characters, the first one left out."""
    found = re.search(r'<textarea id="param:note"[^>]*>\n?(.*?)</textarea>', page, re.DOTALL)
    if found is None:
        found = re.search(r'<input id="param:note"[^>]*? value="([^"]*)"', page)
    assert found is not None
    text = found[1].replace("&lt;", "<").replace("&gt;", ">").replace("\r\n", "\n").replace("\r", "\n")
    return text.replace("\n", "\r\n")


@pytest.mark.parametrize("note", TEXTS)
def test_a_text_that_was_left_as_it_was_stays_so(client: Client, note: str) -> None:
    case = case_of(note)
    page = text_of(client, f"/escalations/{case.pk}/")
    assert code_in(page) == []
    request = factories.decision_request(case)
    answer = client.post(
        f"/escalations/{case.pk}/decision/",
        {
            "action": Action.MODIFY,
            "evidence_hash": request.evidence_hash,
            "version": request.version,
            "impact": request.impact,
            "justification": factories.JUSTIFICATION,
            **{f"param:{name}": value for name, value in factories.OVER_LIMIT.items()},
            "param:notional_cents": "90000",
            "param:note": sent_by_a_browser(page),
        },
    )
    assert answer.status_code == 302, answer.content.decode()
    params = canonical.decode(bytes(Intent.objects.get().proposal.body))["params"]
    assert params == {**factories.OVER_LIMIT, "notional_cents": 90_000, "note": note}


def test_a_text_that_was_changed_has_plain_ends_of_lines(client: Client) -> None:
    case = case_of("one\ntwo")
    request = factories.decision_request(case)
    client.post(
        f"/escalations/{case.pk}/decision/",
        {
            "action": Action.MODIFY,
            "evidence_hash": request.evidence_hash,
            "version": request.version,
            "impact": request.impact,
            "justification": factories.JUSTIFICATION,
            **{f"param:{name}": value for name, value in factories.OVER_LIMIT.items()},
            "param:notional_cents": "90000",
            "param:note": "one\r\nthree",
        },
    )
    params = canonical.decode(bytes(Intent.objects.get().proposal.body))["params"]
    assert params["note"] == "one\nthree"
