"""The whole check of `verify_ledger`: chains, heads, triggers, payloads, and every digest against its row.

Findings are collected, not thrown: the first one is named, and others are listed up to a bound. Nothing in a
table may end the walk: a cell of another type is a finding with its stream and its number.
"""

from dataclasses import dataclass, field
from functools import partial

from django.conf import settings

from audit import actors
from audit.chain import BreakKind, ChainBreak
from audit.sealing.notes import Signed
from audit.verification import entry_walk, row_checks, shared_walk, triggers, verify
from audit.verification.entry_walk import Noted, PayloadCheck
from audit.verification.tree_check import TreeCheck

MOST_FINDINGS = 100


@dataclass(slots=True)
class VerificationResult:
    """What was looked at, what was found (the first `MOST_FINDINGS`), and what no entry can show.

    `not_verified` is what there is but could not be checked, as a signature by a key that is not held here.
    """

    entries: int = 0
    streams: int = 0
    heads: int = 0
    payloads: int = 0
    erased: int = 0
    sealed: int = 0
    leaves: int = 0
    checkpoints: int = 0
    findings: list[ChainBreak] = field(default_factory=list)
    more: int = 0
    not_proved: tuple[str, ...] = ()
    not_verified: tuple[str, ...] = ()


def verify_all(*, given: Signed | None = None, processes: int = 1) -> VerificationResult:
    """Check everything that this database holds of the ledger, beside a running server. Writes nothing.

    `given` is a checkpoint that was kept elsewhere: this ledger must begin with what it was signed over.
    With several `processes` each walks over its own streams, all in one state of the database; the findings
    are the same. Not inside a transaction, then.
    """
    if processes > 1:
        with shared_walk.opened(processes, all_checks, most=MOST_FINDINGS) as walk_all:
            return _verify_all(given, walk_all)
    with verify.snapshot():
        return _verify_all(given, partial(entry_walk.walk_over, entry_walk.Span()))


def all_checks() -> list[row_checks.RowCheck]:
    """A fresh check of the payloads, and of each app's rows."""
    return [PayloadCheck(), *row_checks.all_checks()]


def _verify_all(given: Signed | None, walk_all: shared_walk.WalkAll) -> VerificationResult:
    result, noted, checks = VerificationResult(), Noted(MOST_FINDINGS), all_checks()
    walk = walk_all(checks, noted)
    heads = verify.check_all_heads(walk)
    noted.note(entry_walk.HEADS, heads.breaks)
    tree = TreeCheck(settings.DIR_TENANT, given)
    noted.note(entry_walk.TREE, entry_walk.guarded(tree, tree.run))
    for rank, check in enumerate(checks, start=entry_walk.CHECKS):
        noted.note(rank, entry_walk.guarded(check, check.finish))
    result.findings = noted.told()
    result.more = noted.count - len(result.findings)
    # Last, since they name no entry; and past the bound, since they show how entries could be changed.
    result.findings += [
        ChainBreak(
            "",
            actors.SYSTEM,
            0,
            BreakKind.TRIGGER_MISSING,
            f"the trigger {name} of the ledger is missing or changed",
        )
        for name in triggers.missing()
    ]
    result.entries, result.streams, result.heads = walk.entries, len(walk.heads), heads.count
    for check in checks:
        if isinstance(check, PayloadCheck):
            result.payloads, result.erased = check.count, len(check.erased)
            result.sealed = check.sealed
    result.leaves, result.checkpoints = tree.leaves, tree.checkpoints
    result.not_verified = (*tree.not_verified, *(words for check in checks for words in check.not_verified))
    result.not_proved = tuple(str(item) for check in checks for item in check.not_proved)
    return result
