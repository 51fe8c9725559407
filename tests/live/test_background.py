"""What is sent in the background: in order, merged while it waits, dropped while the other side is away."""

import threading
from collections.abc import Sequence

from audit.live.background import BackgroundSender
from tests.support.wait_until import until

Batch = Sequence[tuple[str, int]]


class OtherSide:
    """Keeps what it gets; fails while it is away, and waits while it is held."""

    def __init__(self) -> None:
        self.got: list[list[tuple[str, int]]] = []
        self.failures: list[Exception] = []
        self.is_away = False
        self.open = threading.Event()
        self.open.set()
        self.asked = threading.Event()

    def receive(self, batch: Batch) -> None:
        self.asked.set()
        assert self.open.wait(60)
        if self.is_away:
            raise OSError("away")
        self.got.append(list(batch))

    def sender(self, *, limit: int = 10, pause_s: float = 60.0) -> BackgroundSender[str, int]:
        return BackgroundSender(
            name="test",
            connect=lambda: self.receive,
            on_failure=self.failures.append,
            limit=limit,
            batch=2,
            pause_s=pause_s,
            merge=max,
        )


def test_sends_in_order_and_merges_what_waits() -> None:
    other = OtherSide()
    sender = other.sender()
    other.open.clear()
    sender.offer("first", 1)
    assert other.asked.wait(60)
    for key, value in (("a", 1), ("b", 1), ("a", 5), ("a", 4), ("c", 1)):
        assert sender.offer(key, value)
    other.open.set()
    until(lambda: len(other.got) == 3)
    assert other.got == [[("first", 1)], [("a", 5), ("b", 1)], [("c", 1)]]


def test_drops_what_does_not_fit_and_keeps_what_waits() -> None:
    other = OtherSide()
    sender = other.sender(limit=1)
    other.open.clear()
    sender.offer("first", 1)
    assert other.asked.wait(60)
    assert [sender.offer("a", 1), sender.offer("b", 1), sender.offer("a", 2)] == [True, False, True]
    assert sender.dropped == 1
    other.open.set()
    until(lambda: other.got == [[("first", 1)], [("a", 2)]])


def test_drops_all_while_the_other_side_is_away_and_continues_afterwards() -> None:
    other = OtherSide()
    sender = other.sender()
    other.is_away = True
    sender.offer("a", 1)
    until(lambda: sender.is_pausing)
    assert not sender.offer("b", 1)
    until(lambda: sender.dropped == 2)
    assert len(other.failures) == 1
    other.is_away = False
    sender.pause(0.0)
    assert sender.offer("c", 1)
    until(lambda: other.got == [[("c", 1)]])
