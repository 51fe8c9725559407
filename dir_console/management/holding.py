"""What the commands of legal holds share: their options, what they act on, and how they refuse."""

from argparse import ArgumentParser
from uuid import UUID

from django.core.management.base import CommandError

from runtime.contracts.problem import Problem
from runtime.maintenance.models import LegalHold

BUSY = "The database is busy; nothing was changed. Run the command again."


def add_arguments(parser: ArgumentParser, *, what: str) -> None:
    """The name, what is kept, and why."""
    parser.add_argument("name", help="the name of the hold, such as case-2026-14; the ledger keeps it")
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--flow", metavar="DFID", help="the id of the flow, as its page shows it")
    target.add_argument("--subject", help="a subject as decision records name it, such as order:881")
    parser.add_argument("--reason", required=True, help=f"why it is {what}; not in the entry, but beside it")


def flow_of(given: str | None) -> UUID | None:
    """The flow that was named. Raises CommandError for what is no id."""
    try:
        return None if given is None else UUID(given)
    except ValueError as error:
        raise CommandError(f"{given} is not the id of a flow.") from error


def done(answer: LegalHold | Problem) -> LegalHold:
    """The hold. Raises CommandError for a refusal."""
    if isinstance(answer, Problem):
        raise CommandError(f"Nothing was changed. {answer.detail}")
    return answer
