"""`import_tools SERVER [--tool NAME]`: list the tools of an MCP server, and pin those that nobody has pinned.

A draft of a policy kind comes of each; admins activate them on their pages. A tool that has changed is not
pinned here: an admin looks at the difference first.
"""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from audit import actors
from runtime.contracts.problem import Problem
from runtime.execution.services import tool_looks
from runtime.registry.services import tools
from runtime.stops.services import call_gate


class Command(BaseCommand):
    """Exit 0 when the server was looked at and every tool that was asked for is pinned."""

    help = "List the tools of an MCP server, and pin those that nobody has pinned."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("server", help="a target with protocol mcp, or a name in DIR_TOOL_COMMANDS")
        parser.add_argument("--tool", action="append", metavar="NAME", help="pin only this tool; repeatable")
        parser.add_argument("--reason", default="Imported by a command", help="recorded in the ledger")
        parser.add_argument("--list", action="store_true", help="pin nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        tenant, server = settings.DIR_TENANT, options["server"]
        try:
            found = tool_looks.look(tenant=tenant, server=server)
        except call_gate.ClosedError as error:
            raise CommandError(f"nothing is called now: {error.why}") from error
        if found is None:
            raise CommandError(f"there is no MCP server named {server}")
        if found.failed:
            raise CommandError(found.trouble)
        if found.trouble:
            self.stdout.write(found.trouble)
        for name in found.seen.quarantined:
            self.stdout.write(f"{name}: changed or gone, quarantined")
        waiting = dict(tool_looks.list_unpinned(tenant=tenant, server=server))
        wanted = options["tool"] or sorted(waiting)
        if unknown := sorted(set(wanted) - waiting.keys()):
            raise CommandError(f"nothing to pin: {', '.join(unknown)}")
        for name in wanted:
            self.stdout.write(
                f"{name}: {'not pinned' if options['list'] else self._pin(name, waiting, options)}"
            )

    def _pin(self, name: str, waiting: dict[str, str], options: dict[str, Any]) -> str:
        done = tools.pin(
            tenant=settings.DIR_TENANT,
            server=options["server"],
            name=name,
            shown=waiting[name],
            reason=options["reason"],
            actor=actors.SYSTEM,
        )
        if isinstance(done, Problem):
            raise CommandError(f"{name}: {done.detail}")
        if isinstance(done.draft, Problem):
            wrong = "; ".join(f"{item.pointer}: {item.message}" for item in done.draft.violations)
            return f"pinned, but no policy kind could be drafted: {wrong or done.draft.detail}"
        return "pinned" if done.draft is None else f"pinned, drafted {done.draft.kind} {done.draft.version}"
