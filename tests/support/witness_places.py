"""Witnesses of tests: a folder or a webhook, and a ledger that goes on being sealed."""

from collections.abc import Sequence
from pathlib import Path

from pytest_django.fixtures import Settings

from audit import ledger
from audit.events import RequestRefused
from audit.models import Tree, WitnessState
from audit.sealing import notes, proofs, witness_folder
from audit.sealing.notes import Signed
from runtime.core import clock, transactions
from runtime.epochs.queries import current_epoch
from runtime.maintenance.services import sealing

SECRET = "whsec_d2l0bmVzcy1zZWNyZXQtb2YtMzItYnl0ZXMtISEhIQ=="


def configure(settings: Settings, *places: str | Path) -> None:
    """Send to these places."""
    settings.DIR_WITNESS = [str(place) for place in places]
    settings.DIR_WITNESS_SECRET = SECRET


def make(folder: Path) -> Path:
    """An empty folder that exists, as a witness must."""
    folder.mkdir()
    return folder


def grow(*, times: int = 1) -> Signed:
    """Write entries and seal them; the newest checkpoint."""
    for _ in range(times):
        transactions.retry_on_conflict(_append)
    sealing.seal_now()
    newest = proofs.latest()
    assert newest is not None
    return newest


def _append() -> None:
    ledger.append_to(
        tenant="default",
        stream="drill",
        actor="system",
        at=clock.now(),
        events=[RequestRefused(code="DRILL", path="/drill")],
    )


def make_due() -> None:
    """The next round sends to every witness."""
    WitnessState.objects.update(next_at=clock.now())


def place_of(folder: Path) -> Path:
    """Where this ledger writes in a witness folder."""
    return folder / witness_folder.name_of(Tree.objects.get().origin, current_epoch.in_force().number)


def held(folder: Path) -> list[str]:
    """The files of this ledger in a witness folder, without those that are hidden."""
    place = place_of(folder)
    return sorted(path.name for path in place.iterdir() if not path.name.startswith("."))


def read(path: Path) -> notes.Checkpoint:
    """The checkpoint in a file."""
    return notes.read(path.read_text()).checkpoint


def state(place: str | Path) -> WitnessState:
    """The row of a witness that is a folder."""
    return WitnessState.objects.get(name=str(place))


def sizes(files: Sequence[str]) -> list[int]:
    """The numbers of numbered files."""
    return [int(name.removesuffix(".txt")) for name in files if name != witness_folder.LATEST]
