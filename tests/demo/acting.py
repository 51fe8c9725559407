"""Short ways to act in the demo's world: one agent's turns, and an admin in a browser without script."""

import json
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import yaml

from demo import agents
from demo.agent_base import Persona
from demo.client import Client, GivenVerdict
from tests.faults import stack as stacks
from tests.faults.stack import Stack
from tests.support import sent_form


@contextmanager
def console_of(folder: Path, migrated_file: Path, *, pack: Path) -> Iterator[Stack]:
    """An embedded console with a pack of the demo and keys for its agents, and a broker process.

    Nobody proposes by itself.
    """
    stack = stacks.embedded(folder, migrated_file)
    stack.broker.start()
    try:
        stack.start()
        stack.prepare(pack=pack, agents=agents_of(pack))
        yield stack
    finally:
        print(stack.logs())
        stack.stop()


def agents_of(pack: Path) -> tuple[str, ...]:
    """The agents that a pack brings along."""
    return tuple(agent["agent_id"] for agent in yaml.safe_load(pack.read_text())["agents"])


def cast(console: Stack, persona: type[Persona], agent: str, *, seed: int = 1) -> Persona:
    """One agent of a stack, with the key that it was given there, which waits for nobody."""
    client = Client(
        base_url=console.base_url,
        agent_id=agent,
        key=json.loads(console.keys.read_text())[agent],
        manifest_version=agents.MANIFEST_VERSION,
    )
    return play(persona, client, seed=seed)


def play(persona: type[Persona], client: Client, *, seed: int = 1) -> Persona:
    """An agent behind this client, which waits for nobody."""

    class Quick(persona):  # type: ignore[misc, valid-type]
        person_s = 0.5
        retry_s = (0.0, 0.0)

    return Quick(client=client, rng=random.Random(seed), stop=client.wire.stop)


def turns(persona: Persona, count: int) -> list[GivenVerdict]:
    """Take turns, close the connection, and return the verdicts that came of them."""
    heard: list[GivenVerdict] = []
    propose = persona.client.propose

    def listen(dfid: str, body: dict[str, object]) -> GivenVerdict:
        heard.append(propose(dfid, body))
        return heard[-1]

    persona.client.propose = listen  # type: ignore[method-assign, assignment]
    for _ in range(count):
        persona.turn()
    persona.client.propose = propose  # type: ignore[method-assign]
    persona.client.wire.close()
    return heard


class Admin:
    """The first operator, who is an admin too, in a browser without script."""

    def __init__(self, *, base_url: str, password: str) -> None:
        self.web = httpx2.Client(
            base_url=base_url, follow_redirects=True, timeout=30, headers={"Referer": base_url}
        )
        self.send("/accounts/login/", "/accounts/login/", login="operator", password=password)

    def read(self, page: str) -> str:
        """The HTML of a page that is there."""
        answer = self.web.get(page)
        assert answer.status_code == 200, f"{page}: {answer.status_code}"
        return str(answer.text)

    def send(self, page: str, address: str, **fields: str) -> str:
        """Send the form of a page; the page that it leads to."""
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', self.read(page))
        assert token
        answer = self.web.post(address, data={**fields, "csrfmiddlewaretoken": token[1]})
        assert answer.status_code == 200, answer.text
        return str(answer.text)

    def fill(self, page: str, address: str, *, marker: str, **changed: str) -> str:
        """Send the form that has the field `marker`, as it stands on its page but for what is changed."""
        sent = sent_form.fields(self.read(page), marker=marker)
        answer = self.web.post(address, data={**sent, **changed})
        assert answer.status_code == 200, answer.text
        return str(answer.text)


@contextmanager
def signed_in(*, base_url: str, log: str) -> Iterator[Admin]:
    """The admin whose password the server said at its first start."""
    password = re.search(r"with the password (\S+)", log)
    assert password
    admin = Admin(base_url=base_url, password=password[1])
    try:
        yield admin
    finally:
        admin.web.close()
