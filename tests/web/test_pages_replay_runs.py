"""The page of runs that replay all flows: who starts and cancels one, its progress, and what it found."""

from uuid import UUID

import pytest
from django.test import Client
from django.urls import reverse

from audit.access.roles import Role
from audit.models import LedgerEntry
from runtime.flows.models import Verdict
from runtime.maintenance.models import ReplayRun
from runtime.maintenance.queries import replay_run_list
from runtime.maintenance.services import replay_runs
from tests.support import factories
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
PAGE = "/replay/"


@pytest.fixture
def changed() -> list[UUID]:
    """Two flows whose verdicts were changed."""
    desk = factories.desk()
    flows = [desk.open() for _ in range(2)]
    for flow in flows:
        desk.propose(flow, params={})
    Verdict.objects.update(decision="ACCEPT")
    return sorted(flow.dfid for flow in flows)


@pytest.mark.parametrize("role", [Role.AUDITOR, Role.ADMIN])
def test_an_auditor_starts_a_run_and_reads_what_it_found(changed: list[UUID], role: Role) -> None:
    client = sign_in(role)
    assert "No run yet" in text_of(client, PAGE)
    assert client.post(reverse("start-replay-run")).status_code == 302
    page = text_of(client, PAGE)
    assert "0 of 2 flows" in page
    assert "Start a run" not in page
    replay_runs.work_due()
    page = text_of(client, PAGE, **{"HX-Request": "true"})
    assert "<title>" not in page
    for dfid in changed:
        assert f'href="{reverse("flow", args=[dfid])}"' in page
    assert "An entry or a row is not what was recorded." in page
    assert "/verdict/decision" in page
    assert ">&quot;REJECT&quot;<" in page
    assert ">&quot;ACCEPT&quot;<" in page
    assert "Cancel the run" not in page


def test_findings_are_paged(changed: list[UUID], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_run_list.list_findings, "__kwdefaults__", {"size": 1})
    client = sign_in(Role.AUDITOR)
    client.post(reverse("start-replay-run"))
    replay_runs.work_due()
    first = text_of(client, PAGE)
    assert str(changed[0]) in first
    assert f"after={changed[0]}" in first
    second = text_of(client, f"{PAGE}?run={ReplayRun.objects.get().pk}&after={changed[0]}")
    assert str(changed[1]) in second
    assert f'href="{reverse("flow", args=[changed[0]])}"' not in second


def test_an_auditor_cancels_a_run(changed: list[UUID]) -> None:
    client = sign_in(Role.AUDITOR)
    client.post(reverse("start-replay-run"))
    path = reverse("cancel-replay-run", args=[ReplayRun.objects.get().pk])
    assert path in text_of(client, PAGE)
    assert client.get(path).status_code == 405
    assert client.post(path).status_code == 302
    assert ReplayRun.objects.get().state == "CANCELLED"
    assert client.post(path).status_code == 409


def test_a_second_run_is_refused_in_words(changed: list[UUID]) -> None:
    client = sign_in(Role.AUDITOR)
    client.post(reverse("start-replay-run"))
    answer = client.post(reverse("start-replay-run"))
    assert answer.status_code == 409
    assert "A run is under way" in answer.content.decode()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"from": "soon"}, "soon is neither a date"),
        ({"from": "2026-11-24", "to": "2026-11-23"}, "2026-11-23 is not after 2026-11-24."),
    ],
)
def test_a_wrong_period_is_named(given: dict[str, str], words: str) -> None:
    answer = sign_in(Role.AUDITOR).post(reverse("start-replay-run"), given)
    assert answer.status_code == 400
    assert words in answer.content.decode()
    assert not ReplayRun.objects.exists()


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.SENIOR])
def test_others_read_the_page_and_start_nothing(changed: list[UUID], role: Role) -> None:
    client = sign_in(role)
    assert client.post(reverse("start-replay-run")).status_code == 403
    run = replay_runs.start(tenant="default", actor="user:7")
    assert isinstance(run, ReplayRun)
    assert client.post(reverse("cancel-replay-run", args=[run.pk])).status_code == 403
    page = text_of(client, PAGE)
    assert "0 of 2 flows" in page
    assert "Cancel the run" not in page
    assert LedgerEntry.objects.filter(kind="replay:run_ended").count() == 0


def test_strangers_are_sent_to_sign_in() -> None:
    assert Client().get(PAGE).status_code == 302
