"""`issue_key AGENT_ID` and `issue_key --feed NAME --prefix P`: print a new key to stdout."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from audit import actors
from runtime.contracts.problem import Problem
from runtime.registry.services import credentials


class Command(BaseCommand):
    """Nothing else goes to stdout, so that a script can keep the key without cutting it out."""

    help = "Print a new key for an agent or a state feed. It cannot be shown again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("agent_id", nargs="?", help="the agent that the key is for")
        parser.add_argument("--feed", help="the name of a state feed, instead of an agent")
        parser.add_argument("--prefix", help="what the feed may write, such as price.")

    def handle(self, *args: Any, **options: Any) -> None:
        tenant = settings.DIR_TENANT
        agent_id, feed, prefix = options["agent_id"], options["feed"], options["prefix"]
        if agent_id and not feed and not prefix:
            issued = credentials.issue_agent_key(tenant=tenant, agent_id=agent_id, actor=actors.SYSTEM)
        elif feed and prefix and not agent_id:
            issued = credentials.issue_feed_key(tenant=tenant, feed=feed, prefix=prefix, actor=actors.SYSTEM)
        else:
            raise CommandError("Name an agent, or give both --feed NAME and --prefix P.")
        if isinstance(issued, Problem):
            raise CommandError(issued.detail)
        self.stdout.write(issued.text)
