"""What a restored backup leaves to do: live intents are put in doubt, then an admin starts a new epoch.

What was accepted in the backup may have run in the time that is lost, so nothing of it runs by itself again.
"""

import secrets
from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.contrib.sessions.models import Session as BrowserSession
from django.db.models import QuerySet

from audit import actors, canonical, events, ledger
from audit.payload_keys import PayloadClass
from audit.sealing import own_key
from runtime.contracts import timestamps
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import LIVE_INTENTS, IntentState, Purpose
from runtime.core import clock, transactions
from runtime.epochs.models import Epoch
from runtime.epochs.queries import current_epoch
from runtime.epochs.services import marks
from runtime.epochs.services.missing import Missing
from runtime.execution.services import callback_reports, human_steps, lost_calls
from runtime.flows.models import Intent
from runtime.flows.queries import calls_in_doubt
from runtime.flows.services import locks
from runtime.registry.models import Session

STATEMENT_TYPE = "dir-console/epoch/1"


def list_undecided(*, limit: int) -> list[UUID]:
    """Live intents not yet marked as in doubt since the restore: each of them may have run.

    A doubt from before does not count: whoever was asked about it may have answered in the lost time.
    """
    restored_at = current_epoch.in_force().restored_at
    return [] if restored_at is None else list(_undecided(restored_at).values_list("pk", flat=True)[:limit])


def _undecided(restored_at: datetime) -> QuerySet[Intent]:
    rows = Intent.objects.filter(state__in=LIVE_INTENTS).exclude(state=IntentState.IN_DOUBT)
    return rows.exclude(purpose=Purpose.PROBE).exclude(calls_in_doubt.in_doubt_since(restored_at))


def put_in_doubt(intent_id: UUID) -> bool:
    """Treat an intent as one whose call was begun and never reported, in the caller's transaction."""
    found = locks.lock_intent(intent_id=intent_id)
    restored_at = current_epoch.in_force().restored_at
    if found is None or restored_at is None or not _undecided(restored_at).filter(pk=intent_id).exists():
        return False
    if found[1].state == IntentState.AWAITING:
        # Whether its group, or its target, has answered in the lost time nobody knows.
        return human_steps.expire_of(intent_id) or callback_reports.expire_of(intent_id)
    return lost_calls.treat_as_lost(*found)


def begin_next(*, tenant: str, actor: str, reason: str) -> Epoch | Problem:
    """An admin's act: the restore is understood, a new epoch begins, and every session ends.

    The statement lists what is missing, and is signed and kept as a payload of its entry.
    """

    def work() -> Epoch | Problem:
        before = Epoch.objects.select_for_update().get(ended_at__isnull=True)
        if before.restored_at is None:
            return Problem(code=ProblemCode.NO_RECOVERY, detail="The database was not restored.")
        if list_undecided(limit=1):
            return Problem(
                code=ProblemCode.RECOVERY_UNDER_WAY,
                detail="Live intents are still being marked as in doubt. Try again in a few seconds.",
            )
        at = clock.now()
        before.ended_at = at
        before.save(update_fields=["ended_at"])
        # A number that no agent has seen: the same backup may be restored twice.
        missing = Missing.from_bytes(bytes(before.missing))
        mark = marks.read()
        number = max(before.number, missing.epoch, 0 if mark is None else mark.epoch) + 1
        epoch = Epoch.objects.create(number=number, database_id=before.database_id, began_at=at)
        Session.objects.filter(expires_at__gt=at).update(expires_at=at)
        BrowserSession.objects.all().delete()
        begun = _signed(tenant, epoch, missing=missing, actor=actor, reason=reason)
        ledger.append_to(tenant=tenant, stream=actors.SYSTEM, actor=actor, at=at, events=[begun])
        return epoch

    begun = transactions.retry_on_conflict(work)
    if isinstance(begun, Epoch) and settings.DIR_MARK:
        newest = marks.of_database()
        if newest is not None:
            marks.write(newest)
    return begun


def _signed(tenant: str, epoch: Epoch, *, missing: Missing, actor: str, reason: str) -> events.EpochBegun:
    in_doubt = Intent.objects.filter(state=IntentState.IN_DOUBT)
    statement = canonical.encode(
        {
            "type": STATEMENT_TYPE,
            "tenant": tenant,
            "database_id": str(epoch.database_id),
            "epoch": epoch.number,
            "missing": missing.to_json(),
            "intents_in_doubt": [str(pk) for pk in in_doubt.values_list("intent_id", flat=True)],
            "reason": reason,
            "by": actor,
            "at": timestamps.iso(epoch.began_at),
            "nonce": secrets.token_hex(16),
        }
    )
    signer = own_key.signer(tenant=tenant, at=epoch.began_at)
    return events.EpochBegun(
        epoch=epoch.number,
        missing_entry=missing.entry_id,
        missing_hash=missing.hash,
        reason=reason,
        statement_commitment=ledger.commit_payload(
            tenant=tenant, data_class=PayloadClass.PEOPLE, body=statement
        ),
        statement_digest=canonical.digest(statement),
        signature=signer.sign(statement).hex(),
        key_id=signer.key_id,
        database_id=str(epoch.database_id),
    )
