"""The product as its users start it, in both topologies, beside a paper broker of the test's own."""

import base64
import json
import re
import secrets
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import redis

from demo.http_client import Unreachable, Wire
from tests.demo.paper import PaperBroker, free_port
from tests.faults.burst import AGENTS
from tests.faults.processes import ROOT, Process, clean_environment, python
from tests.support import databases
from tests.support.console_shell import ConsoleShell
from tests.support.wait_until import until

FAULT_PACK = Path(__file__).with_name("pack.yaml")
FAULT_AGENTS = tuple(f"load-{number}" for number in range(AGENTS))
START_S = 180.0
COMMAND_S = 180.0
# A call ends a second before its lease. A broker that a busy machine keeps waiting must still be heard: what
# it answers too late is in doubt, and rightly so.
LEASE_S = 12
_KEYS = """
from runtime.registry.services import credentials
def key(agent):
    return credentials.issue_agent_key(tenant="default", agent_id=agent, actor="system").text
answer = {{agent: key(agent) for agent in {agents}}}
"""


@dataclass
class Stack:
    """A console and what it needs; ``ask`` reads its database through a shell of its own."""

    folder: Path
    broker: PaperBroker
    env: dict[str, str] = field(repr=False)
    processes: dict[str, Process] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    shell: ConsoleShell = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.shell = ConsoleShell(self.env)

    @property
    def base_url(self) -> str:
        """Where the web listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def keys(self) -> Path:
        """The file of agent keys, for a burst."""
        return self.folder / "keys.json"

    def manage(self, *words: str, ok: bool = True) -> str:
        """Run a command beside the server; its standard output."""
        done = subprocess.run(
            python("manage.py", *words),
            cwd=ROOT,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        assert done.returncode == 0 or not ok, f"manage.py {words}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def ask(self, code: str) -> Any:
        """Run code in the console's shell; it must set ``answer`` to something JSON can hold."""
        return self.shell.ask(code)

    def ask_anew(self, code: str) -> Any:
        """The same in a process of its own: for code that talks to a Redis which had ended."""
        printed = self.manage("shell", "-v", "0", "-c", f"import json\n{code}\nprint(json.dumps(answer))")
        return json.loads(printed.splitlines()[-1])

    def ledger_is_whole(self) -> bool:
        """What ``verify_ledger`` says; it raises with the first bad entry otherwise."""
        self.manage("verify_ledger")
        return True

    def start(self, *names: str) -> None:
        """Start the named processes, or all, and wait until the web answers."""
        for name in names or tuple(self.processes):
            self.processes[name].start()
        self.wait_ready()

    def wait_ready(self) -> None:
        """Wait until ``/readyz`` says yes."""
        until(self._ready, timeout_s=START_S, interval_s=0.1)

    def stop(self) -> None:
        """End everything, in reverse order."""
        for process in reversed(self.processes.values()):
            process.stop()
        self.shell.close()
        self.broker.stop()

    def prepare(self, *, pack: Path = FAULT_PACK, agents: Sequence[str] = FAULT_AGENTS) -> None:
        """Load a pack and hand out keys, as an operator would beside a running server."""
        here = self.folder / pack.name
        # the pack names a broker at a port of its own; this one listens elsewhere
        here.write_text(re.sub(r"http://127\.0\.0\.1:\w+", self.broker.base_url, pack.read_text()))
        self.manage("load_pack", str(here), "--activate")
        self.keys.write_text(json.dumps(self.ask(_KEYS.format(agents=list(agents)))))

    def forget_messages(self) -> None:
        """Empty the Redis of this stack."""
        with redis.Redis.from_url(self.env["REDIS_URL"]) as client:
            client.flushall()

    def cut_connections(self) -> None:
        """End every connection to the database of this stack, as a failover does."""
        url, _, name = self.env["DATABASE_URL"].rpartition("/")
        with psycopg.connect(f"{url}/postgres", autocommit=True) as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,)
            )

    def logs(self) -> str:
        """The end of every log."""
        return "\n".join(process.tail() for process in self.processes.values())

    def _ready(self) -> bool:
        dead = [process for process in self.processes.values() if process.ended()]
        assert not dead, "\n".join(process.tail() for process in dead)
        wire = Wire(base_url=self.base_url, patience_s=0, timeout_s=3)
        try:
            return wire.call("GET", "/readyz").status == 200
        except Unreachable:
            return False
        finally:
            wire.close()

    def _add(self, name: str, argv: list[str]) -> None:
        self.processes[name] = Process(name=name, argv=argv, env=self.env, log=self.folder / f"{name}.log")


def _environment(folder: Path, secret: str, extra: Mapping[str, str]) -> dict[str, str]:
    return clean_environment(
        {
            "DIR_DATA": str(folder / "state"),
            "DIR_EGRESS_ALLOW": "127.0.0.1",
            "DIR_LEASE_S": str(LEASE_S),
            "BROKER_SECRET": secret,
            **extra,
        }
    )


def _broker(folder: Path) -> tuple[PaperBroker, str]:
    secret = "whsec_" + secrets.token_urlsafe(24).replace("-", "A").replace("_", "B")
    return PaperBroker(db=folder / "broker.sqlite3", secret=secret), secret


def embedded(folder: Path, migrated: Path) -> Stack:
    """One server process with its drain thread, on a copy of a migrated SQLite file."""
    broker, secret = _broker(folder)
    stack = Stack(folder=folder, broker=broker, env=_environment(folder, secret, {}))
    state = stack.env["DIR_DATA"]
    databases.put(migrated, Path(state))
    stack._add("server", python("manage.py", "up", "--port", str(stack.port), "--data", state, "--no-demo"))
    return stack


def production(folder: Path, *, database_url: str) -> Stack:
    """Web, two workers and beat on PostgreSQL, with a Redis of its own that may be stopped."""
    broker, secret = _broker(folder)
    redis_port = free_port()
    extra = {
        "DATABASE_URL": database_url,
        "REDIS_URL": f"redis://127.0.0.1:{redis_port}/0",
        "DIR_SECRET_KEY": secrets.token_urlsafe(48),
        "DIR_SIGNING_KEY": base64.b64encode(secrets.token_bytes(32)).decode(),
        "DIR_PAYLOAD_KEY": base64.b64encode(secrets.token_bytes(32)).decode(),
    }
    stack = Stack(folder=folder, broker=broker, env=_environment(folder, secret, extra))
    Path(stack.env["DIR_DATA"]).mkdir()  # as the volume of a compose file would be there
    server = [
        "redis-server",
        "--port",
        str(redis_port),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--dir",
        str(folder),
    ]
    stack._add("redis", server)
    web = [
        "-m",
        "uvicorn",
        "dir_console.asgi:application",
        "--port",
        str(stack.port),
        "--log-level",
        "warning",
    ]
    stack._add("web", python(*web))
    for name in ("worker-1", "worker-2"):
        worker = [
            "-m",
            "celery",
            "-A",
            "dir_console",
            "worker",
            "--concurrency",
            "2",
            "--hostname",
            f"{name}@%h",
        ]
        stack._add(name, python(*worker))
    stack._add("beat", python("-m", "celery", "-A", "dir_console", "beat"))
    return stack
