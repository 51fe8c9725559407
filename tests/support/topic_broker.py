"""A Redis of a test's own for topics: it asks for a password and keeps users in an ACL file."""

import json
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis

from dir_console.topics import names
from tests.demo.paper import free_port
from tests.support.wait_until import until

PASSWORD = "of-the-console"


@dataclass
class TopicBroker:
    """The broker, with the console's own client of it."""

    url: str
    client: Any

    def send(self, agent_id: str, *, token: str, body: Any, key: str = "", **further: Any) -> bytes:
        """A message on the topic of an agent, as its own client writes one; its id."""
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        fields = {"token": token, "key": key or uuid.uuid4().hex, "body": text, **further}
        entry_id: bytes = self.client.xadd(names.intake_of(agent_id), fields)
        return entry_id

    def entries(self, agent_id: str) -> list[dict[str, Any]]:
        """What the agent can read, oldest first, with bodies as values."""
        found = self.client.xrange(names.answers_of(agent_id))
        read = [{name.decode(): value.decode() for name, value in fields.items()} for _, fields in found]
        return [{**entry, "body": json.loads(entry["body"])} for entry in read]

    def answers(self, agent_id: str) -> list[dict[str, Any]]:
        """The answers among these."""
        return [entry for entry in self.entries(agent_id) if entry["type"] == "answer"]

    def notices(self, agent_id: str) -> list[dict[str, Any]]:
        """The bodies of the notices among these."""
        return [entry["body"] for entry in self.entries(agent_id) if entry["type"] == "notice"]

    def count_pending(self, agent_id: str) -> int:
        """Messages that a consumer has taken and not let go of."""
        return int(self.client.xpending(names.intake_of(agent_id), names.GROUP)["pending"])

    def as_agent(self, url: str) -> Any:
        """A client with the address that an agent was given."""
        return redis.Redis.from_url(url, protocol=2, decode_responses=True)


@contextmanager
def running(folder: Path, *, password: str = PASSWORD) -> Iterator[TopicBroker]:
    """A server in `folder`; skips the test where Redis is not installed."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed")
    users = folder / "users.acl"
    users.write_text(f"user default on {f'>{password}' if password else 'nopass'} ~* &* +@all\n")
    port = free_port()
    argv = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    bounds = ["--proto-max-bulk-len", "1mb", "--aclfile", str(users), "--logfile", str(folder / "redis.log")]
    server = subprocess.Popen([*argv, *bounds])
    url = f"redis://:{password}@127.0.0.1:{port}/0" if password else f"redis://127.0.0.1:{port}/0"
    client: Any = redis.Redis.from_url(url, protocol=2)
    try:
        until(lambda: _answers(client))
        yield TopicBroker(url=url, client=client)
    finally:
        client.close()
        server.terminate()
        server.wait(timeout=30)


def _answers(client: Any) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False
