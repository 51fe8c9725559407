"""The parts of `up`, in this process: what it prepares, what it says, and what it starts and ends."""

import json
import os
import threading
import urllib.request
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from pytest_django.fixtures import Settings

from audit.access.permissions import roles_of
from audit.access.roles import Role
from audit.verification import triggers
from demo import supervisor
from dir_console import demo_launcher, single_process
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import IntentState
from runtime.core import transactions
from runtime.execution.services import claiming
from runtime.packs.services import packs
from runtime.registry.models import Agent, Key, PolicyKind
from runtime.registry.services import credentials
from tests.demo.paper import free_port
from tests.support import misbehaving_targets, trading_desk
from tests.support.wait_until import until

Started = list[dict[str, Any]]


@pytest.fixture
def folder(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder that `up` takes for its own."""
    settings.DATA_DIR = tmp_path
    settings.DIR_EGRESS_ALLOW = []
    settings.DIR_TARGET_URLS = {}
    settings.DIR_DEMO_URL = settings.DIR_DEMO_TOKEN = ""
    settings.ALLOWED_HOSTS = ["localhost"]
    for name in ("DATABASE_URL", "REDIS_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BROKER_SECRET", "")
    return tmp_path


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """Demos that would have been started; the server is ready and ends at once."""
    demos: Started = []

    class Stopped:
        def stop(self) -> None:
            demos[-1]["stopped"] = True

    def start(**named: Any) -> Stopped:
        demos.append(named)
        return Stopped()

    def serve(bound: Any, *, on_ready: Callable[[], None], on_stop: list[Any], log_level: str) -> None:
        on_ready()
        for end in on_stop:
            end()
        bound.close()

    monkeypatch.setattr(supervisor, "start", start)
    monkeypatch.setattr(single_process, "serve", serve)
    return demos


def up(*words: str) -> str:
    said = StringIO()
    call_command("up", "--port", "0", *words, stderr=said, no_color=True)
    return said.getvalue()


@pytest.mark.django_db
def test_a_new_folder_gets_its_first_person_and_its_demo(
    folder: Path, started: Started, settings: Settings
) -> None:
    said = up()
    person = get_user_model().objects.get()
    assert roles_of(person) == {Role.OPERATOR, Role.ADMIN}
    password = said.partition("with the password ")[2].partition("\n")[0]
    assert person.check_password(password)
    (demo,) = started
    assert set(demo["keys"]) == set(demo_launcher.AGENTS)
    assert credentials.feed_key(demo["feed_key"]) is not None
    assert demo["stopped"]
    assert demo["secret"] == os.environ["BROKER_SECRET"]
    assert f"127.0.0.1:{demo['broker_port']}" in settings.DIR_EGRESS_ALLOW
    assert settings.DIR_TARGET_URLS["broker"] == f"http://127.0.0.1:{demo['broker_port']}"
    assert f"http://127.0.0.1:{demo['broker_port']}" == settings.DIR_DEMO_URL
    assert demo["control_token"] == settings.DIR_DEMO_TOKEN != ""
    assert demo["base_url"] in said
    assert PolicyKind.objects.filter(active=True).exists()


@pytest.mark.django_db
def test_a_second_start_makes_nothing_new(folder: Path, started: Started) -> None:
    up()
    keys = Key.objects.count()
    said = up()
    assert "password" not in said
    assert Key.objects.count() == keys
    assert started[0]["keys"] == started[1]["keys"]
    assert started[0]["secret"] == started[1]["secret"]
    assert len(started) == 2
    up("--no-demo")
    assert len(started) == 2


@pytest.mark.django_db
def test_a_demo_key_that_was_revoked_is_issued_anew(folder: Path, started: Started) -> None:
    up()
    revoked = started[0]["keys"]["momentum-trader"]
    key = credentials.agent_key(revoked)
    assert key is not None
    credentials.revoke_key(key_id=key.key_id, actor="user:1")
    up()
    assert started[1]["keys"]["momentum-trader"] != revoked
    stored = json.loads((folder / "demo" / "issued_keys.json").read_text())
    assert stored["momentum-trader"] == started[1]["keys"]["momentum-trader"]


@pytest.mark.django_db
def test_without_the_demo_there_is_no_agent(folder: Path, started: Started, settings: Settings) -> None:
    assert "The console is empty" in up("--no-demo")
    assert settings.DIR_DEMO_URL == ""
    assert not started
    assert not Agent.objects.exists()
    assert "The demo is running" not in up()


@pytest.mark.django_db
def test_calls_that_the_last_stop_cut_off_go_to_people(folder: Path, started: Started) -> None:
    intent_id = trading_desk.open_desk().accept()
    assert isinstance(
        transactions.retry_on_conflict(lambda: claiming.claim(intent_id, owner="dead")), claiming.Claimed
    )
    assert "1 call(s) were interrupted" in up("--no-demo")
    assert trading_desk.states(intent_id)[0] is IntentState.IN_DOUBT


@pytest.mark.django_db
def test_a_named_host_may_be_asked_for(folder: Path, started: Started, settings: Settings) -> None:
    assert "http://127.0.0.2:" in up("--no-demo", "--host", "127.0.0.2")
    assert settings.ALLOWED_HOSTS == ["localhost", "127.0.0.2"]
    said = up("--no-demo", "--host", "0.0.0.0")  # noqa: S104  # what is tested
    assert "http://127.0.0.1:" in said
    assert "Add others in DIR_ALLOWED_HOSTS" in said
    assert "http://[::1]:" in up("--no-demo", "--host", "::1")
    assert len(settings.ALLOWED_HOSTS) == 2


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("owner", "name", "answer", "words"),
    [
        (packs, "load", packs.PackRefused(problems=("a problem",)), "a problem"),
        (
            credentials,
            "issue_agent_key",
            Problem(code=ProblemCode.NOT_FOUND, detail="No agent."),
            "No agent.",
        ),
        (single_process, "free_port", None, "no port"),
    ],
)
def test_what_cannot_be_started_says_why(
    owner: Any,
    name: str,
    answer: Any,
    words: str,
    folder: Path,
    started: Started,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*args: Any, **named: Any) -> Any:
        if answer is None:
            raise CommandError("no port")
        return answer

    monkeypatch.setattr(owner, name, fail)
    with pytest.raises(CommandError, match=words):
        up()
    assert not started


@pytest.mark.django_db
def test_an_unprotected_ledger_is_not_served(
    folder: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triggers, "missing", lambda **using: [] if using else ["audit_entry_no_update"])
    with pytest.raises(CommandError, match="not protected"):
        up()
    assert not started


def test_refuses_what_is_not_its_own(
    folder: Path, started: Started, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(CommandError, match="before Django starts"):
        up("--data", str(tmp_path / "elsewhere"))
    with single_process.folder_lock(folder), pytest.raises(CommandError, match="Another console is running"):
        up()
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1/0")
    with pytest.raises(CommandError, match="REDIS_URL is set"):
        up()


def test_the_server_works_while_it_runs_and_ends_what_it_started(real_db: str, settings: Settings) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    port, ready, ended = free_port(), threading.Event(), threading.Event()
    config = uvicorn.Config("dir_console.asgi:application", log_level="warning", timeout_graceful_shutdown=1)
    server = single_process.EmbeddedServer(config, on_ready=ready.set, on_stop=[ended.set])
    bound = single_process.listen("127.0.0.1", port)
    with pytest.raises(single_process.PortTakenError):
        single_process.listen("127.0.0.1", port)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        assert ready.wait(20)
        with misbehaving_targets.stand_in(misbehaving_targets.answer(200)) as target:
            intent_id = trading_desk.open_desk(base_url=target.base_url).accept()
            until(lambda: trading_desk.states(intent_id)[0] is IntentState.DONE, timeout_s=90)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=30) as answer:
            assert answer.status == 200
        assert not ended.is_set()
    finally:
        server.should_exit = True
        thread.join(20)
    assert not thread.is_alive()
    assert ended.is_set()
    assert not [one for one in threading.enumerate() if one.name.startswith("drain-")]
