"""Several senders beside a sealer, with real threads and commits: a witness sees one ledger that grows."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection
from pytest_django.fixtures import Settings

from audit.models import Checkpoint, WitnessState
from audit.sealing import notes, witness_folder
from audit.sealing.notes import NoteError
from runtime.epochs.queries import current_epoch
from runtime.epochs.services import witnessed
from runtime.maintenance.services import witnessing
from tests.support import notice_receivers, racing, witness_places
from tests.support.witness_places import grow, held, make_due, place_of

SENDERS, ROUNDS = 4, 12


@pytest.fixture(autouse=True)
def _anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witnessed, "_first_look", None)


@pytest.fixture
def folder(tmp_path: Path, settings: Settings) -> Path:
    made = witness_places.make(tmp_path / "witness")
    witness_places.configure(settings, made)
    return made


class Reader:
    """Reads the latest file again and again, as somebody on another machine would."""

    def __init__(self, place: Path) -> None:
        self.seen: list[notes.Checkpoint] = []
        self.faults: list[str] = []
        self._place = place
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> "Reader":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _read(self) -> None:
        while not self._stopping.is_set():
            try:
                found = witness_places.read(self._place)
            except NoteError as error:
                self.faults.append(str(error))
                return
            if not self.seen or self.seen[-1] != found:
                self.seen.append(found)


def test_many_senders_beside_a_sealer_never_take_the_latest_back(real_db: str, folder: Path) -> None:
    grow()
    assert len(witnessing.send_now()) == 1
    place = place_of(folder)

    def work(number: int) -> int:
        for _ in range(ROUNDS):
            if number == 0:
                grow()
            else:
                # Forced: each takes the turn whether it is due or not.
                witnessing.send_now()
        return number

    with Reader(place / "latest.txt") as reader:
        racing.race(1 + SENDERS, work)
    assert reader.faults == []
    moments = [(each.size, each.time) for each in reader.seen]
    assert moments == sorted(moments)
    assert witnessing.send_now()[0].error == ""
    by_size = dict(Checkpoint.objects.order_by("-id").values_list("size", "root"))
    for file in held(folder):
        found = witness_places.read(place / file)
        assert bytes(by_size[found.size]) == found.root
        assert file in {witness_folder.LATEST, witness_folder.file_of(found.size)}
    assert witness_places.read(place / "latest.txt").size == max(by_size)
    assert not [path for path in place.iterdir() if path.name.endswith(".new")]
    row = WitnessState.objects.get()
    assert (row.error, row.finding, row.size) == ("", "", max(by_size))
    assert not current_epoch.is_recovering()


@pytest.fixture
def hook(settings: Settings) -> Iterator[notice_receivers.Receiver]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with notice_receivers.receiver() as receiver:
        witness_places.configure(settings, receiver.url)
        yield receiver


def test_of_many_senders_at_once_one_sends(real_db: str, hook: notice_receivers.Receiver) -> None:
    for number in range(1, 4):
        grow()
        make_due()
        sent = racing.race(SENDERS, lambda _: witnessing.send_due())
        assert sorted(sent) == [0] * (SENDERS - 1) + [1]
        assert len(hook.ids) == number


def test_sealing_goes_on_while_a_witness_hangs(
    real_db: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sender holds neither a lock nor a transaction meanwhile."""
    answers, asked = threading.Event(), threading.Event()
    real = witness_folder._ensure_there

    def hang(place: Path) -> None:
        asked.set()
        assert answers.wait(60)
        real(place)

    first = grow()
    monkeypatch.setattr(witness_folder, "TIMEOUT_S", 60.0)
    monkeypatch.setattr(witness_folder, "_ensure_there", hang)

    def send() -> None:
        try:
            witnessing.send_due()
        finally:
            connection.close()

    sending = threading.Thread(target=send, daemon=True)
    sending.start()
    assert asked.wait(60)
    newest = grow(times=3)
    assert newest.checkpoint.size == first.checkpoint.size + 3
    answers.set()
    sending.join(60)
    assert witness_places.read(place_of(folder) / "latest.txt") == first.checkpoint
