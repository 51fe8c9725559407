"""Changes of facts by webhook: in the sight of one agent, and a new start for who is too far behind."""

from collections.abc import Sequence
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from audit import canonical, chain
from audit.models import Tree
from audit.verification import findings
from runtime.contracts.problem import Problem
from runtime.contracts.receiver import EventFormat, ReceiverKind
from runtime.maintenance.services import sealing
from runtime.outward.models import Receiver
from runtime.outward.services import receivers, sending
from runtime.registry.models import Agent
from runtime.state.queries import changes, world
from tests.support import api_client, event_receivers, factories, worlds
from tests.support.event_receivers import again, hook, make_due
from tests.support.misbehaving_targets import Seen

_loaded = worlds.shared(api_client.load_pack)
OF_TRADER = ("state:changed@trader",)


@pytest.fixture(autouse=True)
def _desk(_loaded: None, db: None, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    event_receivers.allow(settings, monkeypatch)
    sealing.seal_now()


def write(path: str, value: Any) -> None:
    """Write a fact, and seal it."""
    factories.write(path, value)
    sealing.seal_now()


def told(seen: Sequence[Seen]) -> list[tuple[str, str, object]]:
    """Type, version of the world and path (or version to start from) of each event."""
    found = []
    for one in seen:
        event, data = event_receivers.read(one), event_receivers.data_of(one)
        what = data["payload"]["path"] if "payload" in data else data["world_version_id"]
        found.append((event.get_type(), event.get_extension("worldversion"), what))
    return found


def test_an_agents_receiver_gets_what_its_manifest_subscribes_to() -> None:
    with hook(patterns=OF_TRADER) as (place, row):
        write("cash.main", 1)
        write("price.AAPL", 2)
        assert sending.send_due() == 1
        assert told(place.target.seen) == [("dir-console.state:changed", "3", "price.AAPL")]
        event, data = (
            event_receivers.read(place.target.seen[0]),
            event_receivers.data_of(place.target.seen[0]),
        )
        hashed = chain.entry_hash(bytes.fromhex(event.get_extension("prevhash")), canonical.encode(data))
        assert hashed.hex() == event.get_id()
        assert "cash" not in repr(place.target.seen)
        assert again(row).next_leaf == Tree.objects.get().size
        # What its manifest names counts when it is sent.
        factories.change_manifest("trader", subscribes=["cash."])
        write("cash.main", 3)
        write("price.AAPL", 4)
        sending.send_due()
        assert [what for _, _, what in told(place.target.seen)] == ["price.AAPL", "cash.main"]


def test_a_receiver_without_an_agent_gets_all_facts_and_nothing_else() -> None:
    with hook(patterns=("state:changed",), from_beginning=True) as (place, _):
        write("cash.main", 1)
        event_receivers.seal("NOT_A_FACT")
        sending.send_due()
        kinds = {kind for kind, _, _ in told(place.target.seen)}
        assert kinds == {"dir-console.state:changed"}
        assert told(place.target.seen)[-1] == ("dir-console.state:changed", "2", "cash.main")


def test_a_receiver_whose_agent_is_gone_gets_nothing() -> None:
    with hook(patterns=OF_TRADER) as (place, row):
        Receiver.objects.filter(pk=row.pk).update(patterns="state:changed@nobody")
        write("price.AAPL", 1)
        assert sending.send_due() == 0
        assert place.target.seen == []


def test_who_is_too_far_behind_is_told_to_start_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "MOST_BEHIND", 3)
    with hook(patterns=OF_TRADER) as (place, row):
        place.status = 503
        write("price.AAPL", 1)
        sending.send_due()
        for value in range(5):
            write("price.AAPL", value)
        last = world.last_version("default")
        make_due()
        sending.send_due()
        place.status = 204
        make_due()
        assert sending.send_due() == 1
        sent = told(place.target.seen)
        # A new start that was not taken is told again, under the same id.
        assert sent[-2:] == [("dir-console.state:resync", str(last), last)] * 2
        assert place.ids[-1] == place.ids[-2] != place.ids[0]
        assert again(row).next_leaf == Tree.objects.get().size
        write("price.AAPL", 9)
        sending.send_due()
        assert told(place.target.seen)[-1] == (
            "dir-console.state:changed",
            str(last + 1),
            "price.AAPL",
        )
    assert findings.verify_all().findings == []


def test_a_test_event_is_sent_as_to_any_receiver() -> None:
    with hook(patterns=OF_TRADER) as (place, row):
        assert receivers.test(tenant="default", receiver_id=row.pk, actor="user:1") == ""
        assert event_receivers.read(place.target.seen[0]).get_type() == "dir-console.receiver:test"


@pytest.mark.parametrize(
    "changed",
    [
        {"patterns": ("state:changed@nobody",)},
        {"patterns": ("state:changed@",)},
        {"patterns": ("state:changed", "escalation:*")},
        {
            "patterns": ("state:changed",),
            "kind": ReceiverKind.SIEM_HTTP,
            "format": EventFormat.OCSF,
        },
    ],
)
def test_what_could_not_be_narrowed_is_refused(changed: dict[str, Any]) -> None:
    answer = receivers.add(
        tenant="default",
        wanted=event_receivers.wanted("http://127.0.0.1:9/", **changed),
        from_beginning=False,
        actor="user:1",
    )
    assert isinstance(answer, Problem)
    assert [violation.pointer for violation in answer.violations] == ["patterns"]
    assert Agent.objects.filter(agent_id="trader").exists()
