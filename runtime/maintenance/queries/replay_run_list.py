"""Runs that replay all flows, and what they found."""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from audit import canonical
from runtime.contracts.replay_run import ReplayRunState
from runtime.core import paging
from runtime.maintenance.models import ReplayFinding, ReplayRun

MOST_RUNS = 20
PAGE = 25


def list_newest(*, tenant: str) -> Sequence[ReplayRun]:
    """The newest runs, the newest first."""
    return list(ReplayRun.objects.of(tenant).order_by("-run_id")[:MOST_RUNS])


def get_run(*, tenant: str, run_id: UUID) -> ReplayRun | None:
    """One run; None where there is none."""
    return ReplayRun.objects.of(tenant).filter(pk=run_id).first()


def get_running(*, tenant: str) -> ReplayRun | None:
    """The run that is under way."""
    return ReplayRun.objects.of(tenant).filter(state=ReplayRunState.RUNNING).first()


def list_findings(*, run: ReplayRun, after: UUID | None, size: int = PAGE) -> paging.Page[ReplayFinding]:
    """What a run found, in the order of the flows; `after` is the flow of the last one shown."""
    rows = run.findings.order_by("dfid")
    if after is not None:
        rows = rows.filter(dfid__gt=after)
    return paging.cut(list(rows[: size + 1]), size)


def told(finding: ReplayFinding) -> list[Any]:
    """What digests are over: where a flow differs, and not the values, which may be erased."""
    return [
        str(finding.dfid),
        str(finding.result),
        finding.change,
        finding.path,
        finding.seq,
        finding.row,
        finding.row_id,
    ]


def digest_of(findings: Iterable[ReplayFinding]) -> str:
    """The digest of what is kept of a run, in the order of the flows."""
    return canonical.digest(canonical.encode([told(finding) for finding in findings]))
