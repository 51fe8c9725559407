"""A person's signed answer to a task is checked offline: its signature, what was shown, and the receipt."""

from collections.abc import Callable
from typing import Any

import pytest

from audit.events import Kind
from audit.models import LedgerEntry
from audit.packs import export, sources, verify
from audit.packs.verify import Report
from runtime.core import clock
from runtime.maintenance.services import sealing
from tests.support import advised_story, evidence_packs
from tests.support.evidence_packs import FLOW, INTENT, NEXT, OPERATOR, STRANGER, TENANT, Story

pytestmark = pytest.mark.once

TASK = "01a21c04-b79b-7035-8f7c-48144c68a599"
_STEP: dict[str, Any] = {
    "intent_id": INTENT,
    "number": 2,
    "step": "book",
    "direction": "FORWARD",
    "group": "g",
}


def with_task(told: Story) -> None:
    """A task at the end of the story, and the answer of somebody."""
    task = {"type": "dir-console/task/1", "tenant": TENANT, "dfid": FLOW, "task_id": TASK, **_STEP}
    opened = {
        "task_id": TASK,
        **_STEP,
        "task_hash": told.named(task),
        "deadline_at": evidence_packs.moment(900),
    }
    told.add("task:opened", "system", opened)
    answer = {"approved": True}
    statement = {name: value for name, value in task.items() if name != "type"} | {
        "type": "dir-console/task-answer/1",
        "task_hash": opened["task_hash"],
        "answer": answer,
        "approver": OPERATOR,
        "answered_at": evidence_packs.moment(told.next_at(), timespec="milliseconds"),
    }
    digest = told.named(statement)
    said = {"task_id": TASK, "intent_id": INTENT, "number": 2, "task_hash": opened["task_hash"]}
    said |= {"receipt_commitment": told.kept(answer), "statement_digest": digest}
    said |= {"signature": NEXT.sign(told.objects[digest]).hex(), "key_id": NEXT.key_id}
    told.add("task:answered", OPERATOR, said)


def with_advice(told: Story) -> None:
    """What rules said, and what was recommended from it."""
    rules = {name: told.named({name: 1}) for name in ("ruleset_digest", "input_digest", "output_digest")}
    told.add("rules:evaluated", "agent:buyer", {"rule_output_id": TASK, **rules})
    package = {name: told.named({name: 2}) for name in ("input_digest", "package_digest")}
    told.add("decision:recommended", "agent:buyer", {"decision_id": TASK, **package})


def report_on(change: Callable[[Story], Any], *, format: str = verify.FORMAT_2) -> Report:
    def both(told: Story) -> None:
        with_task(told)
        with_advice(told)
        change(told)

    members = evidence_packs.told_with(both)
    return verify.verify_archive(
        evidence_packs.archive_of(evidence_packs.with_manifest(members, format=format))
    )


def test_the_whole_pack_is_whole() -> None:
    report = report_on(lambda told: None)
    assert report.findings == []


def answer(**changed: Any) -> Callable[[Story], None]:
    return lambda told: told.rewrite("task:answered", "statement_digest", **changed)


def _signed_by_a_stranger(told: Story) -> None:
    payload = told.entry("task:answered")["payload"]
    payload["signature"] = STRANGER.sign(told.objects[payload["statement_digest"]]).hex()


def _other_task(told: Story) -> None:
    told.entry("task:answered")["payload"]["task_hash"] = told.named({"type": "another"})


def _gone(kind: str, name: str) -> Callable[[Story], None]:
    def change(told: Story) -> None:
        del told.objects[told.entry(kind)["payload"][name]]

    return change


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (answer(answer={"approved": False}), "STATEMENT_MISMATCH"),
        (answer(step="buy"), "STATEMENT_MISMATCH"),
        (answer(task_hash="0" * 64), "STATEMENT_MISMATCH"),
        (answer(approver="user:999"), "STATEMENT_MISMATCH"),
        (answer(type="dir-console/decision/1"), "STATEMENT_MISMATCH"),
        (answer(dfid=TASK), "STATEMENT_MISMATCH"),
        (_signed_by_a_stranger, "SIGNATURE_WRONG"),
        (_other_task, "TASK_UNKNOWN"),
        (lambda told: told.rewrite("task:opened", "task_hash", group="others"), "TASK_MISMATCH"),
        (_gone("task:answered", "statement_digest"), "OBJECT_MISSING"),
        (_gone("task:opened", "task_hash"), "OBJECT_MISSING"),
        (_gone("decision:recommended", "package_digest"), "OBJECT_MISSING"),
        (_gone("rules:evaluated", "output_digest"), "OBJECT_MISSING"),
    ],
)
def test_a_forged_answer_is_found(change: Callable[[Story], None], code: str) -> None:
    assert code in {finding.code for finding in report_on(change).findings}


@pytest.mark.django_db
def test_the_pack_of_an_advised_flow_holds_what_rules_said() -> None:
    dfid = advised_story.write()
    sealing.seal_now()
    archive = export.evidence_pack(tenant="default", dfid=dfid, at=clock.now())
    assert archive is not None
    assert verify.verify_archive(archive).findings == []
    members, _ = verify.read_archive(archive)
    entries = LedgerEntry.objects.filter(
        stream=str(dfid), kind__in=[Kind.RULES_EVALUATED, Kind.DECISION_RECOMMENDED]
    )
    named = [digest for entry in entries for digest in sources.list_named(entry.kind, entry.payload)]
    assert len(named) == 5
    assert all(f"objects/{digest}" in members for digest in named)


def test_a_pack_of_the_first_format_says_what_it_does_not_hold() -> None:
    def without(told: Story) -> None:
        for name in ("input_digest", "package_digest"):
            _gone("decision:recommended", name)(told)

    report = report_on(without, format=verify.FORMAT)
    assert report.findings == []
    assert any(said.startswith("What rules, recommendations and tasks said") for said in report.not_proved)
