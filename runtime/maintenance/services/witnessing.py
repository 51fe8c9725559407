"""Send the newest checkpoint to the witnesses: outside every transaction, and apart from sealing.

Only the newest one counts, so nothing queues up: who was out of reach gets the one that is newest then. A
row per witness says whose turn it is, and is claimed before anything is sent.
"""

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

from django.conf import settings
from django.db.models import F, Q
from django.db.models.functions import Coalesce

from audit import canonical
from audit.models import WitnessState
from audit.sealing import proofs, witness_folder, witnesses
from audit.sealing.notes import Signed
from audit.sealing.witness_folder import FolderError, Held, TakenError
from audit.sealing.witnesses import Judged, Standing, Witness
from runtime.contracts import timestamps
from runtime.core import clock, transactions
from runtime.epochs.queries import current_epoch
from runtime.epochs.services import epochs, witnessed
from runtime.epochs.services.missing import Missing
from runtime.execution.services import witness_delivery
from runtime.kernel import backoff

# Longer than one try takes.
LEASE_S: Final = 4 * max(witness_delivery.SEND_S, witness_folder.TIMEOUT_S)
LONGEST_PAUSE_S: Final = 600.0
_UNTRUSTED: Final = "the newest checkpoint does not match the ledger: run manage.py verify_ledger"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class SendResult:
    """What came of one try. `error` is empty where the witness has the checkpoint now.

    `finding` names a file in its folder that is not what this ledger signed. `is_raced`: another process was
    sending at the same moment, so nothing is known.
    """

    witness: str
    error: str = ""
    finding: str = ""
    is_raced: bool = False


def send_due(*, is_stopping: Callable[[], bool] = lambda: False) -> int:
    """Send the newest checkpoint to those whose turn it is and who lack it; returns how many took it.

    Safe beside any number of other senders. What goes wrong with one witness is noted and costs no other.
    """
    if not settings.DIR_WITNESS:
        return 0
    newest = proofs.latest()
    if newest is None or epochs.refuse_while_recovering() is not None:
        return 0
    at, taken = clock.now(), 0
    for witness, report in zip(witnesses.configured(), witnesses.reports(), strict=True):
        if is_stopping():
            break
        row = report.state
        if row is not None and (
            row.next_at > at or (row.size, row.signed_at) == (newest.checkpoint.size, newest.checkpoint.time)
        ):
            continue
        try:
            result = _send(witness, newest, is_forced=False)
        except transactions.BusyError:
            _log.info("the witness %s waits for the next round: too many concurrent updates", witness.name)
            continue
        except Exception:
            _log.exception("the checkpoint could not be sent to the witness %s", witness.name)
            continue
        taken += result is not None and not result.error and not result.is_raced
    return taken


def send_now() -> list[SendResult]:
    """Send the newest checkpoint to every witness, due or not; to none in recovery, or before the first."""
    newest = proofs.latest()
    if newest is None or epochs.refuse_while_recovering() is not None:
        return []
    sent = [_send(witness, newest, is_forced=True) for witness in witnesses.configured()]
    return [result for result in sent if result is not None]


def _send(witness: Witness, newest: Signed, *, is_forced: bool) -> SendResult | None:
    """One try; None where it is not its turn."""
    row = transactions.retry_on_conflict(partial(_claim, witness, is_forced))
    if row is None:
        return None
    text = newest.text.encode()
    if witnesses.judge(text, tenant=settings.DIR_TENANT).standing is not Standing.HELD:
        result = SendResult(witness=witness.name, error=_UNTRUSTED, finding=row.finding)
    elif witness.folder is not None:
        result = _to_folder(witness, witness.folder, newest, suspect=row.finding)
    else:
        result = _to_webhook(witness, newest)
    _log_new(row, result)
    transactions.retry_on_conflict(partial(_record, row, newest, result))
    return result


def _log_new(row: WitnessState, result: SendResult) -> None:
    """What is wrong is logged when it begins, and not at every try."""
    if result.finding and result.finding != row.finding:
        _log.error(
            "the witness %s: %s is not what this ledger signed. It is not overwritten: keep it, find out who "
            "wrote it, and move it away",
            row.name,
            result.finding,
        )
    if result.error and not result.is_raced and not row.tries:
        _log.warning("the witness %s did not take a checkpoint: %s", row.name, result.error)


def _claim(witness: Witness, is_forced: bool) -> WitnessState | None:
    """Take the turn of a witness until a lease ends; None where another sender has it, or it is too early."""
    at = clock.now()
    row, _ = WitnessState.objects.get_or_create(name=witness.name, defaults={"added_at": at, "next_at": at})
    if row.next_at > at and not is_forced:
        return None
    until = at + timedelta(seconds=LEASE_S)
    if not WitnessState.objects.filter(pk=row.pk, next_at=row.next_at).update(next_at=until):
        return None
    row.next_at = until
    return row


def _to_folder(witness: Witness, folder: Path, newest: Signed, *, suspect: str) -> SendResult:
    """Write to a folder what it lacks. What is there and is not ours stays, and is the finding."""
    sent, epoch = newest.checkpoint, current_epoch.in_force().number
    name = witness_folder.name_of(sent.origin, epoch)
    file = witness_folder.file_of(sent.size)
    transactions.give_back_connection()
    try:
        seen = witness_folder.look(folder, name=name, size=sent.size, suspect=suspect)
        # The ledger is read after the files: it cannot be behind what it signed itself.
        latest, numbered, earlier = (
            None if text is None else witnesses.judge(text, tenant=settings.DIR_TENANT)
            for text in (seen.latest, seen.numbered, seen.suspect)
        )
        for text, judged in ((seen.latest, latest), (seen.numbered, numbered)):
            if text is not None and judged is not None and judged.standing is Standing.NOT_HELD:
                return _restored(witness, Held(epoch, file, text))
        is_newer = latest is None or (
            latest.checkpoint is not None
            and (latest.checkpoint.size, latest.checkpoint.time) < (sent.size, sent.time)
        )
        transactions.give_back_connection()
        if numbered is None or is_newer:
            witness_folder.write(
                folder,
                name=name,
                size=sent.size,
                note=newest.text.encode(),
                seen=seen,
                replace_latest=is_newer,
            )
    except TakenError as error:
        return SendResult(witness=witness.name, error=str(error), finding=suspect, is_raced=True)
    except FolderError as error:
        return SendResult(witness=witness.name, error=str(error), finding=suspect)
    # What everybody reads is named first.
    others = [
        name
        for name, judged in ((witness_folder.LATEST, latest), (file, numbered), (suspect, earlier))
        if _is_other(name, judged)
    ]
    finding = others[0] if others else ""
    is_stored = not (_is_other(witness_folder.LATEST, latest) and _is_other(file, numbered))
    return SendResult(
        witness=witness.name,
        error="" if is_stored else f"{finding} is not what this ledger signed, and stays",
        finding=finding,
    )


def _is_other(file: str, judged: Judged | None) -> bool:
    """Whether a file is not what this ledger would have written there."""
    if judged is None:
        return False
    if judged.checkpoint is None:
        return True
    return file != witness_folder.LATEST and file != witness_folder.file_of(judged.checkpoint.size)


def _restored(witness: Witness, held: Held) -> SendResult:
    """The folder shows that this database is an older or another one: recovery begins."""
    missing = witnessed.missing_from(witness, held)
    if missing is None:
        return SendResult(witness=witness.name, error="it was written to meanwhile", is_raced=True)
    _log.error("%s Nothing is sent there.", missing.words())
    epochs.begin_recovery(Missing(mark=None, checkpoints=(missing,)))
    held_there = f"it holds a checkpoint over {missing.size} entries that this ledger does not begin with"
    return SendResult(witness=witness.name, error=held_there)


def _to_webhook(witness: Witness, newest: Signed) -> SendResult:
    sent = newest.checkpoint
    body = canonical.encode(
        {
            "type": "checkpoint.signed",
            "timestamp": timestamps.iso(sent.time),
            "data": {
                "origin": sent.origin,
                "tree_size": sent.size,
                "root_hash": sent.root.hex(),
                "epoch": current_epoch.in_force().number,
                "checkpoint": newest.text,
            },
        }
    )
    transactions.give_back_connection()
    # The same at every try, so that a receiver knows a repetition.
    message_id = f"msg_{hashlib.sha256(newest.text.encode()).hexdigest()[:32]}"
    why = witness_delivery.post(
        url=witness.place, secret=settings.DIR_WITNESS_SECRET, message_id=message_id, body=body
    )
    return SendResult(witness=witness.name, error=why or "")


def _record(row: WitnessState, newest: Signed, result: SendResult) -> None:
    """Note what came of a try. A sender that was slower than its lease changes nothing that came after it."""
    at, sent = clock.now(), newest.checkpoint
    own = WitnessState.objects.filter(pk=row.pk, next_at=row.next_at)
    next_at = at + timedelta(seconds=settings.DIR_WITNESS_EVERY_S)
    if result.is_raced:
        own.update(next_at=next_at)
    elif result.error:
        own.update(
            tries=F("tries") + 1,
            failing_since=Coalesce("failing_since", at),
            error=result.error,
            finding=result.finding,
            next_at=at + timedelta(seconds=_pause_s(row.tries + 1)),
        )
    else:
        own.update(tries=0, failing_since=None, error="", finding=result.finding, next_at=next_at)
        rows = WitnessState.objects.filter(Q(signed_at=None) | Q(signed_at__lte=sent.time), pk=row.pk)
        rows.update(size=sent.size, signed_at=sent.time, sent_at=at)


def _pause_s(tries: int) -> float:
    """Seconds until the next try: the usual interval, and twice as long each time, up to ten minutes."""
    first_s = float(settings.DIR_WITNESS_EVERY_S)
    return backoff.doubled_s(times=tries, first_s=first_s, longest_s=max(first_s, LONGEST_PAUSE_S))
