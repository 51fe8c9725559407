"""Runs that replay all flows against the entries that began and ended them, for `verify_ledger`."""

from collections.abc import Callable, Mapping

from audit import actors, chain
from audit.events import Kind
from audit.verification.row_checks import Entry, Found, LastingRows, NotProved
from runtime.contracts.replay_run import ReplayRunState
from runtime.maintenance.models import ReplayRun
from runtime.maintenance.queries import replay_run_list

_COUNTS = ("equal", "different", "erased", "failed")
_WORK = "how far a run is and who works on it; its counts and its digest are compared once it has ended"


class ReplayRunRowCheck(LastingRows):
    """Every run, and none that no entry records; of one that has ended, what it came to."""

    kinds = frozenset({Kind.REPLAY_RUN_STARTED, Kind.REPLAY_RUN_ENDED})
    not_proved = (
        NotProved("runtime_replayrun", ("cursor", "lease_owner", "lease_until"), _WORK),
        NotProved(
            "runtime_replayfinding",
            ("recorded", "found"),
            "they go when the flow is erased; a replay of the flow gives them again",
        ),
    )

    def __init__(self) -> None:
        self._started: dict[str, Entry] = {}
        self._ended: dict[str, Entry] = {}

    def take(self, entry: Entry) -> None:
        """Keep the entry; there are two of each run."""
        of_kind = self._started if entry.kind == Kind.REPLAY_RUN_STARTED else self._ended
        of_kind[entry.payload["run_id"]] = entry

    def comparisons(self) -> Mapping[str, Callable[[Found], None]]:
        """The runs, each with its findings."""
        return {"replay runs": self._runs}

    def _runs(self, found: Found) -> None:
        rows = {str(row.pk): row for row in ReplayRun.objects.all()}
        started = found.rows_of(
            self._started.values(), rows, lambda payload: payload["run_id"], "replay run {run_id}"
        )
        for entry, row in started:
            said = entry.payload
            found.same(entry, "replay_run.tenant", entry.tenant, row.tenant)
            found.same(entry, "replay_run.started_by", entry.actor, row.started_by)
            found.by_then(entry, entry, "replay_run.started_at", row.started_at)
            for name, stored in (("since", row.since), ("until", row.until)):
                found.same(
                    entry,
                    f"replay_run.{name}",
                    said[name],
                    None if stored is None else chain.time_text(stored),
                )
            found.same(entry, "replay_run.last_dfid", said["last_dfid"], str(row.last_dfid))
            found.same(entry, "replay_run.flows", said["flows"], row.flows)
            self._compare_end(found, entry, row)
        for row in rows.values():
            found.without_entry(row.tenant, actors.SYSTEM, f"replay run {row.pk}")

    def _compare_end(self, found: Found, started: Entry, row: ReplayRun) -> None:
        ended = self._ended.get(str(row.pk))
        place = ended or started
        found.same(place, "replay_run.ended_by", ended.actor if ended else "", row.ended_by)
        found.by_then(ended, place, "replay_run.ended_at", row.ended_at)
        if ended is None:
            found.same(place, "replay_run.state", ReplayRunState.RUNNING.value, row.state)
            return
        said = ended.payload
        found.same(ended, "replay_run.state", said["state"], row.state)
        for name in (*_COUNTS, "results_digest"):
            found.same(ended, f"replay_run.{name}", said[name], getattr(row, name))
        kept = list(row.findings.order_by("dfid"))
        found.same(ended, "the number of findings", said["findings"], len(kept))
        found.same(
            ended, "the digest of the findings", said["findings_digest"], replay_run_list.digest_of(kept)
        )
