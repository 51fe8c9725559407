"""The agent's user at a real Redis: it writes to its own intake stream and reads its own answers, no more."""

from pathlib import Path
from typing import Any

import pytest
import redis
from django.core.management import CommandError, call_command
from pytest_django.fixtures import Settings

from dir_console.topics import access, names
from dir_console.topics.broker import Broker
from tests.support import api_client, topic_broker
from tests.support.api_client import OTHER, TRADER
from tests.support.topic_broker import TopicBroker

pytestmark = pytest.mark.django_db
FORBIDDEN = [
    ("XADD", names.intake_of(OTHER), "*", "a", "b"),
    ("XADD", names.answers_of(TRADER), "*", "type", "answer"),
    ("XADD", names.POSITION, "*", "a", "b"),
    ("XREAD", "STREAMS", names.intake_of(TRADER), "0"),
    ("XREAD", "STREAMS", names.answers_of(OTHER), "0"),
    ("XREAD", "STREAMS", names.answers_of(TRADER), names.answers_of(OTHER), "0", "0"),
    ("XRANGE", names.answers_of(TRADER), "-", "+"),
    ("XTRIM", names.answers_of(TRADER), "MAXLEN", "0"),
    ("XDEL", names.intake_of(TRADER), "1-1"),
    ("XACK", names.intake_of(TRADER), names.GROUP, "1-1"),
    ("XREADGROUP", "GROUP", names.GROUP, "me", "STREAMS", names.intake_of(TRADER), ">"),
    ("XGROUP", "DESTROY", names.intake_of(TRADER), names.GROUP),
    ("XINFO", "STREAM", names.answers_of(TRADER)),
    ("DEL", names.answers_of(TRADER)),
    ("GET", names.POSITION),
    ("SET", names.intake_of(TRADER), "x"),
    ("COPY", names.answers_of(OTHER), names.intake_of(TRADER)),
    ("SCAN", "0"),
    ("KEYS", "*"),
    ("DBSIZE",),
    ("SELECT", "1"),
    ("PUBLISH", "channel", "x"),
    ("SUBSCRIBE", "channel"),
    ("EVAL", "return redis.call('GET', KEYS[1])", "1", names.POSITION),
    ("ACL", "WHOAMI"),
    ("ACL", "SETUSER", names.user_of(TRADER), "+@all"),
    ("CONFIG", "GET", "*"),
    ("CLIENT", "LIST"),
    ("MONITOR",),
    ("FLUSHALL",),
    ("SHUTDOWN",),
    ("REPLICAOF", "127.0.0.1", "1"),
]


@pytest.fixture(autouse=True)
def _agents(settings: Settings) -> None:
    settings.EMBEDDED = False
    api_client.load_pack()


def made(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What `topic_user` prints to standard output."""
    capsys.readouterr()
    call_command("topic_user", *words)
    return capsys.readouterr().out.strip()


def test_it_writes_its_messages_and_reads_its_answers(
    broker: TopicBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = broker.as_agent(made(capsys, TRADER))
    agent.xadd(names.intake_of(TRADER), {"token": "t", "key": "k", "body": "{}"})
    broker.client.xadd(names.answers_of(TRADER), {"type": "notice", "body": "{}"})
    ((stream, entries),) = agent.xread({names.answers_of(TRADER): "0"})
    assert (stream, len(entries)) == (names.answers_of(TRADER), 1)


def test_it_can_do_nothing_else(broker: TopicBroker, capsys: pytest.CaptureFixture[str]) -> None:
    broker.client.xadd(names.answers_of(OTHER), {"type": "answer", "body": "{}"})
    agent = broker.as_agent(made(capsys, TRADER))
    allowed = []
    for words in FORBIDDEN:
        try:
            allowed.append((words, agent.execute_command(*words)))
        except redis.exceptions.NoPermissionError:
            continue
    assert allowed == []


def test_a_new_password_ends_the_old_one_and_its_connections(
    broker: TopicBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    first = made(capsys, TRADER)
    before: Any = redis.Redis.from_url(first, single_connection_client=True, retry=None)
    before.xadd(names.intake_of(TRADER), {"a": "b"})
    second = made(capsys, TRADER)
    with pytest.raises(redis.exceptions.RedisError):
        before.xadd(names.intake_of(TRADER), {"a": "b"})
    with pytest.raises(redis.AuthenticationError):
        broker.as_agent(first).xadd(names.intake_of(TRADER), {"a": "b"})
    broker.as_agent(second).xadd(names.intake_of(TRADER), {"a": "b"})


def test_a_removed_user_is_gone_with_its_streams(
    broker: TopicBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    url = made(capsys, TRADER)
    made(capsys, TRADER, "--remove")
    with pytest.raises(redis.AuthenticationError):
        broker.as_agent(url).xadd(names.intake_of(TRADER), {"a": "b"})
    assert broker.client.keys() == []


def test_users_outlive_a_restart_where_there_is_an_acl_file(
    tmp_path: Path, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    with topic_broker.running(tmp_path) as server:
        settings.DIR_TOPIC_URL = server.url
        password = made(capsys, TRADER).partition("@")[0].rpartition(":")[2]
    kept = (tmp_path / "users.acl").read_text()
    assert f"user {names.user_of(TRADER)} " in kept
    assert password not in kept


def test_a_printed_line_makes_the_same_user(broker: TopicBroker, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("topic_user", TRADER, "--print")
    printed = capsys.readouterr()
    assert names.user_of(TRADER).encode() not in broker.client.acl_users()
    line = printed.err.partition("user ")[2].splitlines()[0]
    broker.client.execute_command("ACL SETUSER", *line.split())
    broker.as_agent(printed.out.strip()).xadd(names.intake_of(TRADER), {"a": "b"})


def test_a_numbered_database_may_be_selected() -> None:
    user = access.draft(TRADER, base="redis://:x@127.0.0.1:1/3")
    assert "+select" in user.rules
    assert user.url("redis://:x@127.0.0.1:1/3").startswith(f"redis://{names.user_of(TRADER)}:")
    assert user.password not in user.line
    assert user.password not in repr(user)


def test_no_user_is_made_where_everybody_is_admin(
    tmp_path: Path, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    with topic_broker.running(tmp_path, password="") as server:
        settings.DIR_TOPIC_URL = server.url
        with pytest.raises(CommandError, match="needs no password"):
            made(capsys, TRADER)
        assert "needs no password" in (Broker(server.client, consumer="").trouble() or "")


def test_a_broker_that_takes_huge_messages_is_named(broker: TopicBroker) -> None:
    console = Broker(broker.client, consumer="")
    assert console.trouble() is None
    broker.client.config_set("proto-max-bulk-len", "512mb")
    try:
        assert "proto-max-bulk-len" in (console.trouble() or "")
    finally:
        broker.client.config_set("proto-max-bulk-len", "1mb")


@pytest.mark.parametrize("agent_id", ["nobody", "*", "a b"])
def test_only_registered_agents_get_a_user(
    broker: TopicBroker, capsys: pytest.CaptureFixture[str], agent_id: str
) -> None:
    with pytest.raises(CommandError, match="registered"):
        made(capsys, agent_id)


@pytest.mark.parametrize("words", [("topic_intake",), ("topic_user", TRADER)])
def test_it_is_off_in_embedded_mode_and_says_so(settings: Settings, words: tuple[str, ...]) -> None:
    settings.EMBEDDED = True
    with pytest.raises(CommandError, match="embedded mode"):
        call_command(*words)
