"""replay: judge flows again from what is stored, and compare everything that was recorded of them."""

import json
import re
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from audit import actors
from audit.records import periods
from runtime.contracts.problem import Problem
from runtime.contracts.replay_run import ReplayRunState
from runtime.core import ids
from runtime.epochs.services import epochs
from runtime.maintenance.models import ReplayRun
from runtime.maintenance.queries import replay_run_list
from runtime.maintenance.services import replay_runs
from runtime.proposals.queries import flow_replay
from runtime.proposals.queries.replay_results import (
    NotReplayable,
    ReplayDifference,
    ReplayEqual,
    ReplayResult,
)

_UNKNOWN = 2
_REPORT_EVERY = 100
# Another worker holds the run, or writes to the database.
_WAIT_S = 1.0
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

    help = "Replay flows from what is stored: nothing is sent, and without --record nothing is written."

    def add_arguments(self, parser: ArgumentParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("dfid", nargs="?", metavar="DFID", help="the id of the flow, as its page shows it")
        which.add_argument("--trace-id", metavar="W3C_TRACE_ID", help="the flows that were opened in a trace")
        which.add_argument("--all", action="store_true", help="every flow")
        parser.add_argument("--since", metavar="TIME", help="with --all: flows opened since then (UTC)")
        parser.add_argument("--until", metavar="TIME", help="with --all: flows opened before then (UTC)")
        parser.add_argument(
            "--record",
            action="store_true",
            help="with --all: make it a run of the console, which the ledger records, or go on with one",
        )
        parser.add_argument("--json", action="store_true", help="print the answer as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        since, until = (_moment_of(options[name], name) for name in ("since", "until"))
        if (since or until or options["record"]) and not options["all"]:
            raise CommandError("--since, --until and --record go with --all.", returncode=_UNKNOWN)
        if options["record"]:
            self._recorded(since, until, as_json=options["json"])
        elif options["all"]:
            flows = flow_replay.list_flows(tenant=settings.DIR_TENANT)
            first, end = (None if at is None else ids.first_id_of(at) for at in (since, until))
            chosen = [
                dfid for dfid in flows if (first is None or dfid > first) and (end is None or dfid < end)
            ]
            self._several(chosen, as_json=options["json"])
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

    def _recorded(self, since: datetime | None, until: datetime | None, *, as_json: bool) -> None:
        """Begin a run, or go on with the one that is under way, and wait for its end."""
        run = self._begin(since, until)
        while run.state == ReplayRunState.RUNNING:
            if not replay_runs.work(run.pk):
                time.sleep(_WAIT_S)
            run.refresh_from_db()
            self.stderr.write(f"{run.replayed} of {max(run.flows, run.replayed)} flows")
        counts = {name: getattr(run, name) for name in ("equal", "different", "erased", "failed")}
        if as_json:
            told = {"run_id": str(run.pk), "state": run.state, **counts, "results_digest": run.results_digest}
            self.stdout.write(json.dumps(told))
        words = f"{run.state}: " + ", ".join(f"{count} {name}" for name, count in counts.items()) + "."
        if run.state != ReplayRunState.DONE or run.different or run.failed:
            first = run.findings.order_by("dfid").first()
            raise CommandError(f"{words} The first: flow {first.dfid}." if first else words)
        if not as_json:
            self.stdout.write(words)

    def _begin(self, since: datetime | None, until: datetime | None) -> ReplayRun:
        running = replay_run_list.get_running(tenant=settings.DIR_TENANT)
        if running is None or since or until:
            answer = replay_runs.start(
                tenant=settings.DIR_TENANT, actor=actors.SYSTEM, since=since, until=until
            )
        else:
            self.stderr.write(
                f"Going on with the run that was started at {running.started_at:%Y-%m-%d %H:%M}."
            )
            answer = epochs.refuse_while_recovering() or running
        if isinstance(answer, Problem):
            raise CommandError(answer.detail, returncode=_UNKNOWN)
        return answer


def _moment_of(text: str | None, name: str) -> datetime | None:
    if text is None:
        return None
    try:
        return periods.moment(text)
    except ValueError as error:
        raise CommandError(
            f"--{name} {text} is neither a date (2026-11-23) nor a time in UTC (2026-11-23T14:00).",
            returncode=_UNKNOWN,
        ) from error


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
