"""A console under a real server, with the packs of the documentation and a shop that counts refunds."""

import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from dir_console_client import AsyncClient, Client
from django.contrib.auth.models import User

from escalations.contracts import Action
from escalations.models import Escalation
from runtime.contracts.problem import Problem
from runtime.core import clock
from runtime.flows.models import Intent
from runtime.packs.services import packs
from runtime.workers import embedded
from tests.support import api_client, factories, misbehaving_targets, served
from tests.support.misbehaving_targets import StandIn
from tests.support.wait_until import until

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
CLERK, CODER = "refund-clerk", "coding-agent"
RECEIPT = b'{"transfer_id":"trf_1","status":"SENT"}'


@dataclass(frozen=True)
class Desk:
    """The console's address, the shop that its refunds go to, and what people and workers do there."""

    url: str
    shop: StandIn
    olivia: User
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(4))

    def client(self, agent_id: str = CLERK, **settings: Any) -> Client:
        return Client(self.url, agent_id=agent_id, key=api_client.agent_key(agent_id), **settings)

    def async_client(self, agent_id: str = CLERK) -> AsyncClient:
        return AsyncClient(self.url, agent_id=agent_id, key=api_client.agent_key(agent_id))

    def begin(self, work: Any, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Work of an agent, beside what people do."""
        return self.pool.submit(work, *args, **kwargs)

    def decide(self, action: Action, *, nth: int = 1, **more: Any) -> None:
        """What a person decides on the `nth` escalation, once it is there, and the work that follows."""
        until(lambda: Escalation.objects.count() >= nth)
        row = Escalation.objects.latest("opened_at")
        decided = factories.decide(row, self.olivia, action, **more)
        assert not isinstance(decided, Problem), decided
        self.work()

    def work(self) -> None:
        """What the workers do, once there is something to do."""
        waiting = Intent.objects.filter(state="PENDING")
        for intent_id in list(waiting.values_list("pk", flat=True)):
            waiting.filter(pk=intent_id).update(next_at=clock.now())
            assert embedded.attempt_quietly(intent_id, owner="worker")


@contextmanager
def open_desk(*files: Path, receipt: bytes) -> Iterator[Desk]:
    """A desk with these packs, whose targets are one shop that answers each call with the receipt."""
    with misbehaving_targets.stand_in(misbehaving_targets.answer(200, receipt)) as shop:
        for file in files:
            text = file.read_text().replace("http://127.0.0.1:9410", shop.base_url)
            text = re.sub(r",? *secret_env: BROKER_SECRET", "", text)
            loaded = packs.load(text=text, source=file.name, activate=True, actor="system")
            assert isinstance(loaded, packs.Loaded), loaded
        with served.on_a_port() as port:
            desk = Desk(url=f"http://127.0.0.1:{port}", shop=shop, olivia=factories.user())
            yield desk
            desk.pool.shutdown()


@pytest.fixture
def desk(real_db: str, settings: Any) -> Iterator[Desk]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    files = (EXAMPLES / "refund-desk.yaml", EXAMPLES / "coding-agent.yaml")
    with open_desk(*files, receipt=RECEIPT) as desk:
        yield desk
