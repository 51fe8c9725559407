"""Evidence packs made beside the request: progress, one at a time for a person, and what ends a job."""

import threading
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.cache import cache
from django.db import connections
from django.test import Client

from audit.access.roles import Role
from audit.packs import export, progress
from audit.packs.progress import Stage
from runtime.maintenance.services import evidence_packs, pack_jobs
from runtime.maintenance.services.pack_jobs import BusyError, Job, Place, State
from tests.support import exported_packs, factories, wait_until
from tests.web.test_pages import code_in, sign_in, text_of

HX = {"HX-Request": "true"}


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    yield
    for held in list(HELD):
        held.set()


HELD: list[threading.Event] = []


def place_of(dfid: UUID, actor: str = "user:1") -> Place:
    return Place("default", actor, dfid)


def flow_of_long_standing() -> factories.Opened:
    desk = factories.desk()
    flow = desk.open()
    desk.propose(flow)
    return flow


def test_a_pack_is_made_on_a_thread_and_kept_to_be_saved(real_db: str) -> None:
    flow = flow_of_long_standing()
    client = sign_in(Role.AUDITOR)
    page = client.post(f"/flows/{flow.dfid}/evidence/start/", headers=HX).content.decode()
    assert "pack-bar" in page or "Save the pack" in page
    path = f"/flows/{flow.dfid}/evidence/progress/"
    wait_until.until(lambda: "Save the pack" in text_of(client, path, **HX))
    ready = text_of(client, path, **HX)
    assert "hx-get" not in ready
    assert code_in(ready) == []
    kept = client.get(f"/flows/{flow.dfid}/evidence.zip?ready=1")
    assert "attachment" in kept["Content-Disposition"]
    again = client.get(f"/flows/{flow.dfid}/evidence.zip?ready=1")
    assert kept.content == again.content
    pack = exported_packs.read(kept.content)
    assert [body["kind"] for body in pack.flow()] == flow.entries()


def held_back(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event, list[int]]:
    """Makes the making of packs wait in the middle: that it has begun, what lets it go on, and how often."""
    begun, go_on, made = threading.Event(), threading.Event(), list[int]()
    HELD.append(go_on)
    make = evidence_packs.make

    def slow(*, watch: progress.Watch = progress.unwatched, **given: Any) -> bytes | None:
        made.append(1)
        watch(Stage.PROOFS, 300, 400)
        begun.set()
        assert go_on.wait(30)
        return make(watch=watch, **given)

    monkeypatch.setattr(evidence_packs, "make", slow)
    return begun, go_on, made


def test_no_second_pack_is_made_for_a_person_while_one_is(
    real_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = flow_of_long_standing()
    begun, go_on, made = held_back(monkeypatch)
    client = sign_in(Role.AUDITOR)
    start = f"/flows/{flow.dfid}/evidence/start/"
    client.post(start, headers=HX)
    assert begun.wait(30)
    answers: list[int] = []

    def press() -> None:
        other = Client()
        other.cookies = client.cookies
        answers.append(other.post(start, headers=HX).status_code)
        answers.append(other.get(f"/flows/{flow.dfid}/evidence.zip").status_code)
        connections.close_all()

    threads = [threading.Thread(target=press) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(answers) == [200] * 4 + [409] * 4
    path = f"/flows/{flow.dfid}/evidence/progress/"
    wait_until.until(lambda: "Proving entries: 300 of 400" in text_of(client, path, **HX))
    assert len(made) == 1
    go_on.set()
    wait_until.until(lambda: "Save the pack" in text_of(client, path, **HX))
    assert client.get(f"/flows/{flow.dfid}/evidence.zip").status_code == 200


def test_another_person_and_another_flow_do_not_wait(real_db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = flow_of_long_standing()
    mine, theirs = place_of(flow.dfid), place_of(flow.dfid, "user:2")
    with pack_jobs.alone(mine):
        with pytest.raises(BusyError), pack_jobs.alone(mine):
            pytest.fail("two at once")
        with pack_jobs.alone(theirs), pack_jobs.alone(place_of(uuid4())):
            pass
    with pack_jobs.alone(mine):
        pass


def ran(place: Place) -> Job:
    """A job that is run here and now."""
    return pack_jobs.start(place, run=lambda work: work())


def raising(error: Exception) -> Callable[..., bytes]:
    def make(**given: Any) -> bytes:
        raise error

    return make


@pytest.mark.parametrize(
    ("error", "state", "words"),
    [
        (export.NotSealedError(), State.NOT_SEALED, "would prove nothing"),
        (RuntimeError("the disk is full"), State.FAILED, "could not be made"),
    ],
)
def test_a_job_that_fails_says_so_and_can_be_started_again(
    real_db: str, monkeypatch: pytest.MonkeyPatch, error: Exception, state: State, words: str
) -> None:
    flow = flow_of_long_standing()
    client = sign_in(Role.AUDITOR)
    actor = f"user:{client.session['_auth_user_id']}"
    with monkeypatch.context() as patch:
        patch.setattr(evidence_packs, "make", raising(error))
        assert ran(place_of(flow.dfid, actor)).state is state
    page = text_of(client, f"/flows/{flow.dfid}/evidence/progress/", **HX)
    assert words in page
    assert "hx-get" not in page
    assert ran(place_of(flow.dfid, actor)).state is State.READY


def test_a_job_whose_process_has_ended_is_lost_and_not_running_for_ever(real_db: str) -> None:
    place = place_of(uuid4())
    pack_jobs.start(place, run=lambda work: None)  # as where the process ends before it begins
    found = pack_jobs.find(place)
    assert found is not None
    assert found.state is State.RUNNING
    cache.delete(place.key("lock"))  # what its time does
    lost = pack_jobs.find(place)
    assert lost is not None
    assert lost.state is State.LOST
    assert ran(place).state is State.FAILED  # there is no such flow


@pytest.mark.django_db
def test_without_javascript_the_button_leads_to_the_file() -> None:
    flow = flow_of_long_standing()
    client = sign_in(Role.OPERATOR)
    answer = client.post(f"/flows/{flow.dfid}/evidence/start/")
    assert answer["Location"] == f"/flows/{flow.dfid}/evidence.zip"
    assert client.get(answer["Location"]).status_code == 200
    page = text_of(client, f"/flows/{flow.dfid}/")
    assert f'action="/flows/{flow.dfid}/evidence/start/"' in page
    assert text_of(client, f"/flows/{flow.dfid}/evidence/progress/", **HX).strip() == ""


@pytest.mark.django_db
def test_only_who_may_read_starts_one() -> None:
    flow = flow_of_long_standing()
    path = f"/flows/{flow.dfid}/evidence/start/"
    assert Client().post(path)["Location"].startswith("/accounts/login/")
    assert sign_in(name="nobody").post(path).status_code == 403
    client = sign_in(Role.AUDITOR)
    assert client.get(path).status_code == 405
    assert client.post(f"/flows/{uuid4()}/evidence/start/").status_code == 404
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = client.cookies
    assert strict.post(path).status_code == 403


def test_progress_never_goes_back() -> None:
    shares = [progress.per_cent(stage, done, 4) for stage in Stage for done in range(5)]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 100)
    assert Job(state=State.READY).per_cent == 100


@pytest.mark.django_db
def test_a_long_flow_is_proved_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY", 3)
    flow, seen = flow_of_long_standing(), list[tuple[Stage, int, int]]()
    whole = evidence_packs.make(
        tenant="default", dfid=flow.dfid, watch=lambda stage, done, total: seen.append((stage, done, total))
    )
    assert whole is not None
    assert list(dict.fromkeys(stage for stage, _, _ in seen)) == list(Stage)
    proved = [(done, total) for stage, done, total in seen if stage is Stage.PROOFS]
    assert len(proved) > 3
    assert proved[-1][0] == proved[-1][1]
    assert [body["kind"] for body in exported_packs.read(whole).flow()] == flow.entries()
