"""`manage.py topic_user AGENT_ID`: make, print or remove the user with which an agent reaches its topic."""

from argparse import ArgumentParser
from typing import Any

import redis
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from dir_console.topics import access, broker
from runtime.contracts.states import AgentStatus
from runtime.registry.models import Agent


class Command(BaseCommand):
    """Standard output holds the address alone, so that a script can keep it; everything else is on stderr."""

    help = "Make the Redis user of an agent, which may write to its own topic and read its own answers only."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("agent_id", help="a registered agent")
        what = parser.add_mutually_exclusive_group()
        what.add_argument(
            "--print",
            dest="only_print",
            action="store_true",
            help="change nothing, and print the line of an ACL file as well",
        )
        what.add_argument("--remove", action="store_true", help="remove the user and its streams")

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.EMBEDDED:
            raise CommandError("Topics are off in embedded mode, which has no Redis. Set REDIS_URL.")
        agent_id = options["agent_id"]
        with broker.connect() as client:
            try:
                if options["remove"]:
                    self._remove(client, agent_id)
                else:
                    self._make(client, agent_id, only_print=options["only_print"])
            except redis.RedisError as error:
                raise CommandError(
                    f"The broker of topics refuses it, or cannot be reached: {error}"
                ) from error

    def _make(self, client: "redis.Redis", agent_id: str, *, only_print: bool) -> None:
        agent = Agent.objects.of(settings.DIR_TENANT).filter(agent_id=agent_id).first()
        if agent is None or agent.status == AgentStatus.RETIRED:
            raise CommandError(f"No agent {agent_id} is registered, or it is retired.")
        user = access.draft(agent_id, base=settings.DIR_TOPIC_URL)
        if only_print:
            self._say(f"Put this line into the ACL file of the broker: {user.line}")
        else:
            if broker.access_is_open(client):
                raise CommandError(
                    "Anybody who reaches this Redis is its admin: its user `default` needs no password. Set "
                    "one (requirepass, or an ACL file) and name it in DIR_TOPIC_URL before agents get users."
                )
            if not access.create(client, user, agent_id=agent_id):
                self._say(f"This Redis has no ACL file, so the user is gone after a restart: {user.line}")
        self._say("The address holds a password that cannot be shown again.")
        self.stdout.write(user.url(settings.DIR_TOPIC_URL))

    def _remove(self, client: "redis.Redis", agent_id: str) -> None:
        there_was = access.remove(client, agent_id)
        self._say(f"{agent_id} has no user at the broker." if there_was else f"{agent_id} had no user.")

    def _say(self, words: str) -> None:
        self.stderr.write(words, style_func=str)
