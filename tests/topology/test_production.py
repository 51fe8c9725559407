"""The commands of docker-compose.yml, run by hand on this machine's PostgreSQL and Redis.

Only what a container would bring is put in: the address, the port and the place of /data.
"""

import base64
import json
import os
import re
import secrets
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
import yaml

from demo.client import Client
from demo.http_client import Unreachable, Wire
from tests.demo.paper import free_port
from tests.faults.processes import ROOT, Process, clean_environment, python
from tests.support import misbehaving_targets, notice_receivers, trading_desk
from tests.support.wait_until import until

pytestmark = pytest.mark.slow
ADMIN_URL = os.environ.get("DIR_TEST_POSTGRES", "postgres://root@127.0.0.1:5432/postgres")
# These tests empty their Redis database, so each worker of a run has one of its own: 10 to 13.
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
REDIS_URL = f"{os.environ.get('DIR_TEST_REDIS', 'redis://127.0.0.1:6379')}/{13 - WORKER % 4}"
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
START_S = 180.0
BIN = ROOT / ".venv/bin"


@dataclass
class Installation:
    """A production install: its database, its processes, and one agent with a key."""

    folder: Path
    env: dict[str, str] = field(repr=False)
    port: int
    processes: dict[str, Process] = field(default_factory=dict)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def manage(self, *words: str) -> str:
        return self.run(python("manage.py", *words))

    def run(self, argv: list[str]) -> str:
        done = subprocess.run(
            argv, cwd=ROOT, env=self.env, capture_output=True, text=True, timeout=180, check=False
        )
        assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
        return done.stdout

    def argv(self, words: list[str]) -> list[str]:
        """A command of the compose file as it runs outside a container."""
        changes = {"0.0.0.0": "127.0.0.1", "8000": str(self.port)}  # noqa: S104  # replaced, not bound
        return [self.placed(changes.get(word, word)) for word in words]

    def placed(self, text: str) -> str:
        """The folders of a container, here: at once, since this one may be below /tmp itself."""
        return re.sub("/(?:data|tmp)/", f"{self.folder}/", text)

    def start(self, name: str) -> Process:
        process = Process(
            name=name,
            argv=self.argv(SERVICES[name]["command"]),
            env=self.env,
            log=self.folder / f"{name}.log",
        )
        self.processes[name] = process
        process.start()
        return process

    def is_ready(self) -> bool:
        dead = [process.tail() for process in self.processes.values() if process.ended()]
        assert not dead, "\n".join(dead)
        return self.answers("/readyz")

    def answers(self, path: str) -> bool:
        wire = Wire(base_url=self.base_url, patience_s=0, timeout_s=5)
        try:
            return wire.call("GET", path).status == 200
        except Unreachable:
            return False
        finally:
            wire.close()

    def logs(self) -> str:
        return "\n".join(process.tail() for process in self.processes.values())


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Everything that the compose file starts, started in its order."""
    try:
        admin = psycopg.connect(ADMIN_URL, autocommit=True)
    except psycopg.OperationalError as error:
        pytest.skip(f"no PostgreSQL at DIR_TEST_POSTGRES: {error}")
    broker = redis.Redis.from_url(REDIS_URL, socket_connect_timeout=2)
    try:
        broker.ping()
    except redis.RedisError as error:
        pytest.skip(f"no Redis at DIR_TEST_REDIS: {error}")
    name = f"dir_topology_{os.getpid()}"
    folder = tmp_path_factory.mktemp("production")
    admin.execute(f'CREATE DATABASE "{name}"')
    broker.flushdb()
    env = clean_environment(
        {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "DIR_DATA": str(folder),
            "DATABASE_URL": f"{ADMIN_URL.rpartition('/')[0]}/{name}",
            "REDIS_URL": REDIS_URL,
            "DIR_SECRET_KEY": secrets.token_urlsafe(48),
            "DIR_SIGNING_KEY": base64.b64encode(secrets.token_bytes(32)).decode(),
            "DIR_PAYLOAD_KEY": base64.b64encode(secrets.token_bytes(32)).decode(),
            "DIR_EGRESS_ALLOW": "127.0.0.1",
            "DIR_LOG_LEVEL": "INFO",
        }
    )
    made = Installation(folder=folder, env=env, port=free_port())
    try:
        made.run(made.argv(SERVICES["migrate"]["command"]))
        for service in ("web", "worker", "guards", "notices", "sealer", "topic-intake", "beat"):
            made.start(service)
        until(made.is_ready, timeout_s=START_S, interval_s=0.2)
        yield made
    finally:
        print(made.logs())
        for process in made.processes.values():
            process.stop()
        broker.flushdb()
        broker.close()
        admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        admin.close()


@pytest.fixture
def target() -> Iterator[misbehaving_targets.StandIn]:
    with misbehaving_targets.stand_in(
        misbehaving_targets.answer(200, b'{"order_id":"o1","status":"FILLED"}')
    ) as running:
        yield running


@pytest.fixture
def agent(installation: Installation, target: misbehaving_targets.StandIn) -> Iterator[Client]:
    """An agent of the trial pack, whose target is this test's own."""
    pack = installation.folder / "trial.yaml"
    pack.write_text(trading_desk.pack(base_url=target.base_url))
    installation.manage("load_pack", str(pack), "--activate")
    key = installation.manage("issue_key", trading_desk.AGENT).strip()
    made = Client(base_url=installation.base_url, agent_id=trading_desk.AGENT, key=key)
    yield made
    made.wire.close()


def propose(agent: Client) -> str:
    """An accepted proposal; its flow."""
    dfid = agent.open_flow(trigger="trial")
    verdict = agent.propose(
        dfid,
        {
            "policy_kind": trading_desk.KIND,
            "params": {"symbol": "ABC", "quantity": 1},
            "execution_constraints": {"validity_window_sec": 60},
            "context_ref": agent.context(dfid).ref,
            "confidence": 0.9,
        },
    )
    assert verdict.verdict == "ACCEPT"
    return dfid


def ended(agent: Client, dfid: str) -> str:
    """The last thing the agent hears of a flow."""
    return [event.event_type for event in agent.follow(dfid, patience_s=30)][-1]


def test_a_proposal_goes_all_the_way(
    installation: Installation, agent: Client, target: misbehaving_targets.StandIn
) -> None:
    flows = [propose(agent) for _ in range(5)]
    for dfid in flows:
        until(lambda dfid=dfid: agent.flow(dfid)["state"] == "CLOSED", timeout_s=90)  # type: ignore[misc]
    keys = [seen.headers["Idempotency-Key"] for seen in target.seen]
    assert len(keys) == len(set(keys)) == 5
    assert "broker cannot be reached" not in installation.processes["web"].log.read_text()
    installation.manage("verify_ledger")


def test_a_proposal_goes_all_the_way_over_a_topic(
    installation: Installation, agent: Client, target: misbehaving_targets.StandIn
) -> None:
    """The program that `connect` prints, which is told here which facts its agent has seen."""
    words = ["connect", trading_desk.AGENT, "--with", "topic", "--url", installation.base_url]
    key, _, program = installation.manage(*words, "--new-key").partition("\n")
    key = key.partition("=")[2].partition(" ")[0]
    seen = '"context": "current", "seen": {"price.ABC": 1, "market.state": 1}'
    program = program.replace('"context": "current"', seen)
    env = {**installation.env, "DIR_AGENT_KEY": key, "DIR_TOPIC_URL": REDIS_URL}
    done = subprocess.run(
        python("-c", program), env=env, capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, done.stderr + installation.logs()
    status, _, body = done.stdout.partition(" ")
    verdict = json.loads(body)
    assert (status, verdict["verdict"]) == ("200", "ACCEPT")
    until(lambda: agent.flow(verdict["dfid"])["state"] == "CLOSED", timeout_s=90)
    assert len(target.seen) == 1
    with redis.Redis.from_url(REDIS_URL, protocol=2) as broker:
        until(
            lambda: b"EXECUTION_OUTCOME" in repr(broker.xrange(f"dir:answers:{trading_desk.AGENT}")).encode()
        )


def test_beat_finds_an_intent_that_nobody_rang_for(
    installation: Installation, agent: Client, target: misbehaving_targets.StandIn
) -> None:
    """A stopped Redis costs the agent nothing; the sweeper rings when it is back."""
    worker = installation.processes["worker"]
    worker.stop()
    dfid = propose(agent)
    with redis.Redis.from_url(REDIS_URL) as broker:
        broker.flushdb()
    assert not target.seen
    installation.start("worker")
    until(lambda: agent.flow(dfid)["state"] == "CLOSED", timeout_s=START_S)
    assert len(target.seen) == 1


def test_beat_lets_the_worker_of_notices_send_them(installation: Installation) -> None:
    with notice_receivers.receiver() as receiver:
        code = (
            "from escalations.services.notices import routes;"
            f"wanted = routes.RouteRequest(name='desk', url={receiver.url!r});"
            "added = routes.add(tenant='default', request=wanted, actor='user:1');"
            "routes.test(tenant='default', route_id=added.route.pk, actor='user:1')"
        )
        installation.manage("shell", "-c", code)
        until(lambda: receiver.ids, timeout_s=START_S)
        assert [body["type"] for body in receiver.bodies()] == ["notification.test"]


def test_the_worker_of_sealing_signs_what_is_committed(installation: Installation, agent: Client) -> None:
    dfid = propose(agent)
    code = (
        "from audit.models import Leaf, LedgerEntry;"
        f"ids = LedgerEntry.objects.filter(stream='{dfid}').values('id');"
        "print(ids.count() > 0 and Leaf.objects.filter(entry_id__in=ids).count() == ids.count())"
    )
    until(lambda: "True" in installation.manage("shell", "-c", code), timeout_s=START_S, interval_s=1)


def test_a_worker_that_is_stopped_finishes_its_call(
    installation: Installation, agent: Client, target: misbehaving_targets.StandIn
) -> None:
    """`docker compose stop` sends SIGTERM to the first process only."""
    with misbehaving_targets.stand_in(misbehaving_targets.answer(200), is_held=True) as slow:
        pack = installation.folder / "slow.yaml"
        pack.write_text(trading_desk.pack(base_url=slow.base_url))
        installation.manage("load_pack", str(pack), "--activate")
        dfid = propose(agent)
        until(lambda: slow.seen, timeout_s=90)
        worker = installation.processes["worker"].running
        assert worker is not None
        worker.send_signal(signal.SIGTERM)
        slow.release.set()
        assert worker.wait(timeout=30) == 0, installation.logs()
        until(lambda: agent.flow(dfid)["state"] == "CLOSED", timeout_s=90)
    installation.start("worker")


def test_the_health_checks_of_the_compose_file_pass(installation: Installation) -> None:
    for name in ("web", "topic-intake", "beat"):
        _, *words = SERVICES[name]["healthcheck"]["test"]
        code = installation.placed(words[-1]).replace(":8000/", f":{installation.port}/")
        until(lambda code=code: passes(installation, code), timeout_s=90)  # type: ignore[misc]
    assert installation.answers("/livez")


def passes(installation: Installation, code: str) -> bool:
    return subprocess.run(python("-c", code), env=installation.env, check=False, timeout=20).returncode == 0
