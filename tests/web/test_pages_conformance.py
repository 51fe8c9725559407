"""The page that runs every item: what it shows before and after, who may run it, and one run at a time."""

from collections.abc import Iterator

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse

from audit.access.roles import Role
from audit.models import LedgerEntry
from dir_console.conformance import catalogue, frameworks, run
from tests.support.conformance_items import answer_for_the_child
from tests.web.test_pages import code_in, sign_in, text_of

pytestmark = pytest.mark.django_db
PAGE, RUN = "/conformance/", "/conformance/run/"


@pytest.fixture(autouse=True)
def _nothing_was_run(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    answer_for_the_child(monkeypatch)
    cache.clear()
    yield
    cache.clear()


def test_before_the_first_run_it_says_what_would_be_tried() -> None:
    page = text_of(sign_in(Role.AUDITOR), PAGE)
    for check in catalogue.CHECKS:
        assert f'id="{check.id}"' in page
    assert page.count(">not run<") == len(catalogue.CHECKS)
    assert f'action="{RUN}"' in page
    assert code_in(page) == []


@pytest.mark.parametrize("role", list(Role))
def test_who_may_read_the_ledger_may_run_it(role: Role) -> None:
    client = sign_in(role)
    before = LedgerEntry.objects.count()
    answer = client.post(RUN)
    assert (answer.status_code, answer["Location"]) == (302, PAGE)
    assert LedgerEntry.objects.count() == before
    page = text_of(client, PAGE)
    assert ">not run<" not in page
    assert "not ready" in page
    assert '<time datetime="' in page
    assert "The operating system lets this process connect." in page
    assert code_in(page) == []


def test_the_last_result_is_there_for_others() -> None:
    sign_in(Role.AUDITOR).post(RUN)
    assert "What was tried" in text_of(sign_in(Role.OPERATOR, name="other"), PAGE)


def test_a_no_is_told_by_word_and_icon(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_for_the_child(monkeypatch, judge={"is_equal": True, "events": ["<b>socket</b>"]})
    client = sign_in(Role.ADMIN)
    client.post(RUN)
    page = text_of(client, PAGE)
    assert "While it was judged: &lt;b&gt;socket&lt;/b&gt;." in page
    assert "1 no" in page


def test_both_tables_lead_to_items_and_pages() -> None:
    page = text_of(sign_in(Role.AUDITOR), PAGE)
    for framework in frameworks.FRAMEWORKS:
        for each in framework.requirements:
            assert each.ref in page
    assert 'href="#dare-5"' in page
    assert f'href="{reverse("help-page", args=["stopping"])}"' in page
    assert "Not covered" in page


def test_one_run_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    client = sign_in(Role.AUDITOR)
    cache.add("conformance-running-default", True)
    monkeypatch.setattr(run, "run", lambda **_: pytest.fail("it was run"))
    assert "A run is under way." in client.post(RUN, follow=True).content.decode()


def test_a_run_that_fails_leaves_nothing_behind_that_keeps_others_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = sign_in(Role.AUDITOR)
    honest = run.run

    def fail(**_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(run, "run", fail)
    with pytest.raises(MemoryError):
        client.post(RUN)
    monkeypatch.setattr(run, "run", honest)
    client.post(RUN)
    assert "What was tried" in text_of(client, PAGE)


def test_it_takes_a_button_and_a_role() -> None:
    client = sign_in(Role.AUDITOR)
    assert client.get(RUN).status_code == 405
    assert Client().get(PAGE).status_code == 302
    assert Client().post(RUN).status_code == 302
    nobody = sign_in(name="nobody")
    assert nobody.get(PAGE).status_code == 403
    assert nobody.post(RUN).status_code == 403


def test_the_menu_and_help_lead_to_it() -> None:
    client = sign_in(Role.AUDITOR)
    assert f'href="{PAGE}"' in text_of(client, "/ledger/")
    assert "Conformance" in text_of(client, "/help/")
    page = text_of(client, "/help/conformance/")
    assert "What a run does not show" in page
    assert "&lt;br&gt;" not in page
