"""The flows that a run looks at, and what several items read of them: each is read once."""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final
from uuid import UUID

from django.db.models import Exists, OuterRef, Q

from audit.models import LedgerEntry
from audit.records import emission
from audit.records import queries as records
from audit.records.fold import Said
from audit.records.queries import Found
from audit.verification import verify
from dir_console.conformance import imports, trial_run
from dir_console.conformance.imports import Import
from escalations.models import Escalation
from runtime.contracts.states import ENDED, Decision, FlowState, OutcomeStatus
from runtime.flows.models import Flow, Outcome, Proposal, Verdict
from runtime.proposals.queries import flow_replay
from runtime.proposals.queries.replay_results import ReplayResult

SIZE: Final = 20
MOST: Final = 200
# How far back incidents are looked for, in flows.
LOOK_BACK: Final = 2000
REPLAYS_S: Final = 8.0


@dataclass(frozen=True, slots=True)
class Replays:
    """What replays of the newest ended flows came to; `left` were not begun, since the time was over."""

    results: Mapping[UUID, ReplayResult | None]
    left: int = 0


class Sample:
    """The newest ended flows of a tenant, at most `size` (1 to MOST), and those with an incident."""

    def __init__(self, *, tenant: str, size: int = SIZE) -> None:
        self.tenant = tenant
        self.size = min(max(size, 1), MOST)

    @cached_property
    def flows(self) -> tuple[UUID, ...]:
        """The newest flows that have ended, newest first."""
        ended = Flow.objects.of(self.tenant).filter(state__in=ENDED).order_by("-dfid")
        return tuple(ended.values_list("dfid", flat=True)[: self.size])

    @cached_property
    def incidents(self) -> tuple[UUID, ...]:
        """The newest ended flows in which something was denied, escalated or aborted, or did not succeed."""
        ended = Flow.objects.of(self.tenant).filter(state__in=ENDED).order_by("-dfid")
        newest = list(ended.values_list("dfid", flat=True)[:LOOK_BACK])
        if not newest:
            return ()
        rejected = Verdict.objects.filter(proposal__flow=OuterRef("dfid"), decision=Decision.REJECT)
        escalated = Escalation.objects.filter(flow=OuterRef("dfid"))
        unlike = Outcome.objects.filter(intent__flow=OuterRef("dfid")).exclude(status=OutcomeStatus.SUCCEEDED)
        rows = ended.filter(dfid__gte=newest[-1]).filter(
            Q(state=FlowState.ABORTED) | Exists(rejected) | Exists(escalated) | Exists(unlike)
        )
        return tuple(rows.values_list("dfid", flat=True)[: self.size])

    @cached_property
    def replays(self) -> Replays:
        """Every flow of the sample replayed, for at most REPLAYS_S seconds."""
        results: dict[UUID, ReplayResult | None] = {}
        ends_at = time.monotonic() + REPLAYS_S
        for dfid in self.flows:
            if results and time.monotonic() > ends_at:
                break
            results[dfid] = flow_replay.replay(tenant=self.tenant, dfid=dfid)
        return Replays(results, left=len(self.flows) - len(results))

    @cached_property
    def records(self) -> Mapping[UUID, Found | None]:
        """The decision records of each flow, oldest first."""
        with verify.snapshot():
            return {dfid: records.list_of_flow(tenant=self.tenant, dfid=dfid) for dfid in self.flows}

    @cached_property
    def entries(self) -> Mapping[UUID, Sequence[Said]]:
        """The entries of the flows of the sample and of the incidents, in order."""
        wanted = {str(dfid) for dfid in (*self.flows, *self.incidents)}
        rows = LedgerEntry.objects.filter(tenant=self.tenant, stream__in=wanted).order_by("stream", "seq")
        found: dict[UUID, list[Said]] = defaultdict(list)
        for stream, body in rows.values_list("stream", "body"):
            found[UUID(stream)].append(emission.said_of(bytes(body)))
        return found

    @cached_property
    def verdicts(self) -> Sequence[Verdict]:
        """The verdicts in the flows of the sample, newest first, with their rules."""
        rows = Verdict.objects.select_related("bundle").filter(proposal__flow__in=self.flows)
        return list(rows.order_by("-proposal_id"))

    @cached_property
    def proposals(self) -> Sequence[Proposal]:
        """The proposals in the flows of the sample."""
        return list(Proposal.objects.filter(flow__in=self.flows).order_by("-proposal_id"))

    @cached_property
    def imports(self) -> Sequence[Import]:
        """What every file of the product imports."""
        return imports.list_imports()

    def trial(self) -> Mapping[str, Any]:
        """What the child process tried and saw. Raises `trial_run.TrialError`, again at each call."""
        if isinstance(self._trial, trial_run.TrialError):
            raise self._trial
        return self._trial

    @cached_property
    def _trial(self) -> Mapping[str, Any] | trial_run.TrialError:
        # A child that did not end in time must not be started again for each item that asks.
        try:
            return trial_run.run(verdicts=self.verdicts)
        except trial_run.TrialError as error:
            return error
