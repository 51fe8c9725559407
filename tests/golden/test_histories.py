"""Golden histories: a verdict that was given once is given again by every later version, byte for byte."""

import shutil
from pathlib import Path

import pytest

from audit import canonical
from runtime.contracts.reasons import Reason
from runtime.contracts.verdict import VerdictDocument
from runtime.kernel.gate import pipeline
from runtime.kernel.gate.gate_input import PolicyBundle
from tests.golden import history, record, scenarios

# Given after the gate: by the worker, the sweeper, or a person.
ELSEWHERE = {
    Reason.LEASE_ENDED,
    Reason.OUTCOME_NOT_ALLOWED,
    Reason.OUTPUTS_INVALID,
    Reason.TAMPERED,
    Reason.APPROVAL_UNPROVED,
    Reason.EFFECT_CONTRADICTED,
    Reason.PARENT_ENDED,
    Reason.IN_DOUBT,
    Reason.REPEATED_FAILURE,
    Reason.TERMINAL_FAILURE,
    Reason.ROUTED,
    Reason.CLOSED_BY_ROUTE,
    Reason.COMPENSATION_FAILED,
    Reason.PARTIAL_SUCCESS_DIRTY,
    Reason.CANCELLED_BY_AGENT,
    Reason.ABORTED_BY_PERSON,
    Reason.TAKEN_BACK,
    Reason.DEADLINE_PASSED,
    Reason.IDLE_TOO_LONG,
    Reason.AGENT_SILENT,
    Reason.WORKFLOW_INTERRUPTED,
    Reason.POLICY_DEADLOCK,
    Reason.AWAITING_HUMAN_INPUT,
    Reason.SILENCE_OVER,
    Reason.PRECONDITION_FAILED,
    Reason.RECEIPT_INVALID,
    Reason.INVARIANT_VIOLATED_AFTER,
    Reason.TASK_OVERDUE,
}


@pytest.mark.parametrize("name", history.recorded())
def test_the_verdict_is_the_one_that_was_recorded(name: str) -> None:
    kept = history.read(name)
    assert kept.again() == kept.verdict


@pytest.mark.parametrize("name", history.recorded())
def test_stored_forms_are_read_without_losing_or_changing_a_member(name: str) -> None:
    kept = history.read(name)
    for text, again in (
        (kept.judgement, pipeline.Judgement.from_bytes(kept.judgement.encode())),
        (kept.rules, PolicyBundle.from_bytes(kept.rules.encode())),
        (kept.verdict, VerdictDocument.from_bytes(kept.verdict.encode())),
    ):
        assert history.holds(canonical.decode(text.encode()), canonical.decode(again.to_bytes()))


def test_every_scenario_is_recorded() -> None:
    assert set(scenarios.names()) <= set(history.recorded())


def test_every_name_says_what_was_decided() -> None:
    for name in history.recorded():
        decision = VerdictDocument.from_bytes(history.read(name).verdict.encode()).decision
        assert name.split("-")[0] == decision.lower()


def test_every_reason_of_the_gate_has_a_history() -> None:
    verdicts = [
        VerdictDocument.from_bytes(history.read(name).verdict.encode()) for name in history.recorded()
    ]
    seen = {finding.code for verdict in verdicts for finding in verdict.findings}
    assert {reason for reason in Reason if reason not in seen} == ELSEWHERE


def test_recording_adds_what_is_new_and_names_what_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(history.FOLDER, tmp_path / "histories")
    monkeypatch.setattr(history, "FOLDER", tmp_path / "histories")
    before = history.path("accept").read_bytes()
    history.path("reject-rule").unlink()
    assert record.main() == 0
    assert capsys.readouterr().out == "recorded reject-rule\n"
    assert history.path("accept").read_bytes() == before
    monkeypatch.setattr(
        pipeline, "STAGES", [stage for stage in pipeline.STAGES if stage.name != "confidence"]
    )
    assert record.main() == 1
    assert "CHANGED accept:" in capsys.readouterr().err
    with pytest.raises(FileExistsError):
        history.write("accept", history.read("accept"))
