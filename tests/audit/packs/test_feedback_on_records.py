"""Feedback in a pack: it is about a decision record that its flow emitted before, or it is found."""

import pytest

from audit.packs import verify
from tests.support import evidence_packs, governed_story
from tests.support.evidence_packs import FLOW, OPERATOR, Story, opened, record_name
from tests.support.governed_story import AFTER_QUESTION, told_with

pytestmark = pytest.mark.once
ABOUT = opened(governed_story.whole()[record_name(AFTER_QUESTION)])


@pytest.mark.parametrize("changed", [{}, {"record_id": "dr_00_1"}, {"record_hash": "ab" * 32}])
def test_feedback_is_about_a_record_before_it(changed: dict[str, str]) -> None:
    named = {"record_id": ABOUT["record_id"], "record_hash": ABOUT["audit"]["record_hash"]}

    def give(told: Story) -> None:
        said = {**named, "reason_commitment": told.kept("No."), **changed}
        told.add("record:feedback_given", OPERATOR, said)

    report = verify.verify_archive(evidence_packs.archive_of(told_with(give)))
    last = max(item.seq for item in report.findings) if report.findings else 0
    assert {(item.code, item.stream) for item in report.findings} == (
        {("FEEDBACK_UNFOUNDED", FLOW)} if changed else set()
    )
    assert (last > AFTER_QUESTION) == bool(changed)
    assert any(sentence.startswith("Feedback is about") for sentence in report.proved) == (not changed)
