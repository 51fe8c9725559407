"""The database against what witness folders hold: a checkpoint that it does not begin with shows a restore.

Found where the mark is not: another machine, or a mark that was restored with the database. Folders are read
when a process first asks, and from then on by whoever sends checkpoints, each time before it writes.
"""

import logging
from typing import Final

from django.conf import settings

from audit import chain
from audit.models import Tree
from audit.sealing import witness_folder, witnesses
from audit.sealing.witness_folder import FolderError, Held
from audit.sealing.witnesses import Standing, Witness
from runtime.epochs.queries import current_epoch
from runtime.epochs.services import boots
from runtime.epochs.services.missing import MissingCheckpoint

_log: Final = logging.getLogger(__name__)
# What was missing when this process first asked, and in which epoch.
_first_look: "tuple[int, tuple[MissingCheckpoint, ...]] | None" = None


def find_missing() -> tuple[MissingCheckpoint, ...]:
    """Of each folder the largest checkpoint of this ledger that the database does not begin with.

    A folder that cannot be read in time is logged and left out: refusing to start would turn a protection
    into an outage. One that is signed by no key of this ledger proves nothing.
    """
    tree = Tree.objects.first()
    if tree is None:
        return ()
    epoch, found = current_epoch.in_force().number, []
    for witness in witnesses.configured():
        if witness.folder is None:
            continue
        try:
            held = witness_folder.newest(witness.folder, origin=tree.origin, epoch=epoch, beyond=tree.size)
        except FolderError as error:
            _log.warning(
                "the witness %s was not read: %s. Whether it knows of a newer database is not known",
                witness.name,
                error,
            )
            continue
        missing = [each for each in (missing_from(witness, text) for text in held) if each is not None]
        found += sorted(missing, key=lambda each: (each.epoch, each.size))[-1:]
    return tuple(found)


def missing_from(witness: Witness, held: Held) -> MissingCheckpoint | None:
    """The checkpoint in a file, where the database lacks it; one of a later epoch shows a restore anyway."""
    judged = witnesses.judge(held.text, tenant=settings.DIR_TENANT)
    if judged.checkpoint is None:
        return None
    if judged.standing is Standing.HELD and held.epoch <= current_epoch.in_force().number:
        return None
    return MissingCheckpoint(
        witness=witness.name,
        epoch=held.epoch,
        size=judged.checkpoint.size,
        root=judged.checkpoint.root.hex(),
        time=chain.time_text(judged.checkpoint.time),
    )


def first_look() -> tuple[MissingCheckpoint, ...]:
    """What was missing when this process first asked; asked anew in a new epoch if anything was."""
    global _first_look
    if not settings.DIR_WITNESS:
        return ()
    if _first_look is None or (_first_look[1] and _first_look[0] != current_epoch.in_force().number):
        _first_look = current_epoch.in_force().number, find_missing()
    return _first_look[1]


def is_older() -> bool:
    """Whether the database is older than what a witness holds, before any sweeper has reported it.

    A server that is alone has compared at its start.
    """
    return boots.this_boot() is None and bool(first_look())
