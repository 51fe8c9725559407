"""`manage.py connect AGENT_ID --with FRAMEWORK`: print what an agent needs."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from audit import actors
from dir_console import connecting
from runtime.contracts.problem import Problem
from runtime.registry.models import Agent
from runtime.registry.queries import granted_kinds
from runtime.registry.services import credentials


class Command(BaseCommand):
    """Standard output holds the configuration; a new key goes there only where it is asked for."""

    help = "Print a ready configuration for an agent, in a framework or of its own."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("agent_id", help="a registered agent with an active manifest")
        parser.add_argument(
            "--with",
            dest="framework",
            choices=sorted(connecting.CONFIGURATIONS),
            default="python",
            help="what the agent is built with",
        )
        parser.add_argument(
            "--url", default="http://127.0.0.1:8000", help="where the agent reaches the console"
        )
        parser.add_argument(
            "--new-key", action="store_true", help="issue a key, and print it as a line of a shell"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        tenant, agent_id = settings.DIR_TENANT, options["agent_id"]
        agent = Agent.objects.of(tenant).select_related("active_manifest").filter(agent_id=agent_id).first()
        if agent is None:
            raise CommandError(f"No agent {agent_id} is registered. Load a pack, or register it on /agents/.")
        manifest = granted_kinds.manifest_of(agent)
        active = granted_kinds.list_granted(agent)
        if manifest is None or not active:
            raise CommandError(
                f"{agent_id} has no active manifest with an active policy kind. Activate one first."
            )
        connection = connecting.Connection(
            url=options["url"].rstrip("/"),
            agent_id=agent_id,
            version=manifest.version,
            kinds={row.kind: granted_kinds.contract_of(row).params_schema for row in active},
        )
        self.stdout.write(self._key_line(tenant, agent_id, new=options["new_key"]))
        self.stdout.write(connecting.CONFIGURATIONS[options["framework"]](connection))

    def _key_line(self, tenant: str, agent_id: str, *, new: bool) -> str:
        if not new:
            return f'export DIR_AGENT_KEY="$(python manage.py issue_key {agent_id})"   # in a shell, once\n'
        issued = credentials.issue_agent_key(tenant=tenant, agent_id=agent_id, actor=actors.SYSTEM)
        if isinstance(issued, Problem):
            raise CommandError(issued.detail)
        return f"export DIR_AGENT_KEY={issued.text}   # in a shell; it cannot be shown again\n"
