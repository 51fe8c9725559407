"""`draft_calibration [AGENT_ID] [--kind KIND]`: draft calibration maps; admins activate them on a page."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from audit import actors
from runtime.contracts.problem import Problem
from runtime.proposals.services import calibration_drafts
from runtime.registry.queries import calibration_maps


class Command(BaseCommand):
    """It may run every night: what says the same as the newest map of its place is not drafted again."""

    help = "Draft calibration maps of the agents whose manifest asks for calibrated confidence, or of one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("agent_id", nargs="?", help="only this agent, whatever its manifest asks for")
        parser.add_argument("--kind", help="only this policy kind")

    def handle(self, *args: Any, **options: Any) -> None:
        tenant = settings.DIR_TENANT
        places = calibration_maps.list_places(
            tenant=tenant, agent_id=options["agent_id"], policy_kind=options["kind"]
        )
        if options["agent_id"] and not places:
            raise CommandError("No such agent, or its active manifest does not grant the kind.")
        for agent_id, policy_kind in places:
            found = calibration_drafts.draft(
                tenant=tenant, agent_id=agent_id, policy_kind=policy_kind, actor=actors.SYSTEM
            )
            self.stdout.write(f"{agent_id} {policy_kind}: {_words(found)}")


def _words(found: calibration_drafts.Drafted | Problem) -> str:
    if isinstance(found, Problem):
        return found.detail
    return calibration_drafts.sentence(found)
