"""What the commands that erase share: their options, and the lines that they print."""

from argparse import ArgumentParser
from collections.abc import Collection, Iterator
from uuid import UUID

from django.conf import settings
from django.core.management.base import CommandError

from audit import actors
from runtime.contracts.problem import Problem
from runtime.core import transactions
from runtime.flows.queries import flow_search
from runtime.maintenance.services import erasure

LONGEST_REASON = 500


def add_arguments(parser: ArgumentParser) -> None:
    """The options of both commands."""
    parser.add_argument("--reason", required=True, help="the reason; it is kept in the ledger permanently")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be erased")


def is_known(dfid: UUID) -> bool:
    """Whether there is such a flow."""
    return flow_search.get_flow(tenant=settings.DIR_TENANT, dfid=dfid) is not None


def erase(dfids: Collection[UUID], *, reason: str, dry_run: bool) -> Iterator[str]:
    """Erase these flows, and say what was emptied. Raises CommandError where nothing was."""
    said = reason.strip()
    if not 0 < len(said) <= LONGEST_REASON or "\x00" in said:
        raise CommandError(f"Give a reason of at most {LONGEST_REASON} characters.")
    try:
        answer = erasure.erase(
            tenant=settings.DIR_TENANT, dfids=dfids, reason=said, actor=actors.SYSTEM, dry_run=dry_run
        )
    except transactions.BusyError as error:
        raise CommandError("The database is busy; nothing was erased. Run the command again.") from error
    if isinstance(answer, Problem):
        raise CommandError(f"Nothing was erased. {answer.detail}")
    if answer.kept:
        why = " ".join(f"{kept.dfid}: {kept.why}" for kept in answer.kept)
        raise CommandError(f"Nothing was erased. {why}")
    if not answer.flows:
        yield "There was nothing left to erase."
    for flow in answer.flows:
        yield f"{'would erase' if dry_run else 'erased'} {flow.dfid}"
        yield from (f"  {name}: {count}" for name, count in flow.counts.items())
        yield f"  texts behind commitments: {flow.payloads}"
        yield f"  digests without a salt that stay, so that a guess can be confirmed: {flow.guessable}"
        for item in flow.digests:
            yield f"    {item.field} {item.digest}: {'guessable' if item.is_guessable else 'salted'}"
        yield from (f"  not erased, a flow of its own: {child}" for child in flow.children)
