"""replay: judge flows again from what is stored, and compare everything that was recorded of them."""

import json
import re
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from runtime.proposals.queries import flow_replay
from runtime.proposals.queries.replay_results import (
    NotReplayable,
    ReplayDifference,
    ReplayEqual,
    ReplayResult,
)

_UNKNOWN = 2
_REPORT_EVERY = 100
_TRACE_ID = re.compile(r"[0-9a-f]{32}")


@dataclass
class _Summary:
    """Several flows: how many, and the first difference."""

    flows: int = 0
    verdicts: int = 0
    checked: dict[str, int] = field(default_factory=dict)
    not_replayable: int = 0
    differences: int = 0
    first: ReplayDifference | None = None

    def add(self, result: ReplayResult) -> None:
        self.flows += 1
        match result:
            case ReplayEqual():
                self.verdicts += result.verdicts
                for name, count in result.checked.items():
                    self.checked[name] = self.checked.get(name, 0) + count
            case ReplayDifference():
                self.differences += 1
                self.first = self.first or result
            case NotReplayable():
                self.not_replayable += 1

    def plain(self) -> dict[str, Any]:
        told = (
            {"result": "replay_equal", "verdicts": self.verdicts, "checked": self.checked}
            if self.first is None
            else self.first.plain()
        )
        return {
            **told,
            "flows": self.flows,
            "differences": self.differences,
            "flows_not_replayable": self.not_replayable,
        }


class Command(BaseCommand):
    """Exit 0 when all is equal, 1 with the first difference, 2 for a flow that is unknown or was erased."""

    help = "Replay flows from what is stored: nothing is sent, and nothing is written."

    def add_arguments(self, parser: ArgumentParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("dfid", nargs="?", metavar="DFID", help="the id of the flow, as its page shows it")
        which.add_argument("--trace-id", metavar="W3C_TRACE_ID", help="the flows that were opened in a trace")
        which.add_argument("--all", action="store_true", help="every flow")
        parser.add_argument("--json", action="store_true", help="print the answer as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["all"]:
            self._several(flow_replay.list_flows(tenant=settings.DIR_TENANT), as_json=options["json"])
        elif options["trace_id"]:
            flows = _flows_of_trace(options["trace_id"])
            self._several(flows, as_json=options["json"])
        else:
            self._one(_id_of(options["dfid"]), as_json=options["json"])

    def _one(self, dfid: UUID, *, as_json: bool) -> None:
        result = flow_replay.replay(tenant=settings.DIR_TENANT, dfid=dfid)
        if result is None:
            raise CommandError(f"There is no flow {dfid}.", returncode=_UNKNOWN)
        if as_json:
            self.stdout.write(json.dumps(result.plain(), ensure_ascii=False))
        match result:
            case ReplayDifference():
                raise CommandError(_words(result))
            case NotReplayable():
                fields = ", ".join(f"{name} of entry {seq}" for seq, name in result.erased)
                raise CommandError(f"Not replayable, since words were erased: {fields}.", returncode=_UNKNOWN)
        if not as_json:
            self.stdout.write(
                f"Replay equal: {result.verdicts} verdicts and {result.checked['entries']} entries."
            )

    def _several(self, flows: Sequence[UUID], *, as_json: bool) -> None:
        summary = _Summary()
        for number, dfid in enumerate(flows, start=1):
            result = flow_replay.replay(tenant=settings.DIR_TENANT, dfid=dfid)
            if result is not None:
                summary.add(result)
            if number % _REPORT_EVERY == 0 or number == len(flows):
                self.stderr.write(f"{number} of {len(flows)} flows")
        if as_json:
            self.stdout.write(json.dumps(summary.plain(), ensure_ascii=False))
        if summary.first is not None:
            count = f"{summary.differences} of {summary.flows} flows differ."
            raise CommandError(f"{count} The first: {_words(summary.first)}")
        if not as_json:
            erased = f" {summary.not_replayable} are not replayable: erased." * bool(summary.not_replayable)
            self.stdout.write(f"Replay equal: {summary.verdicts} verdicts of {summary.flows} flows.{erased}")


def _id_of(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as error:
        raise CommandError(f"{text} is no DFID.", returncode=_UNKNOWN) from error


def _flows_of_trace(text: str) -> list[UUID]:
    if not _TRACE_ID.fullmatch(text.lower()):
        raise CommandError(f"{text} is no trace id: it has 32 hexadecimal digits.", returncode=_UNKNOWN)
    flows = flow_replay.list_flows_of_trace(tenant=settings.DIR_TENANT, trace_id=text)
    if not flows:
        raise CommandError(f"No flow was opened in the trace {text}.", returncode=_UNKNOWN)
    return flows


def _words(found: ReplayDifference) -> str:
    return (
        f"flow {found.dfid}, entry {found.seq}: {found.change} at {found.path}: "
        f"recorded {json.dumps(found.recorded, ensure_ascii=False)}, "
        f"found {json.dumps(found.found, ensure_ascii=False)}."
    )
