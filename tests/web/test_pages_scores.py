"""Scorecards on the pages of records, and in the audit API."""

from typing import Any

import pytest

from audit.access.roles import Role
from audit.models import DecisionRecord
from runtime.maintenance.services import scoring
from tests.support import api_client, recorded_flows, worlds
from tests.support.recorded_flows import Recorded
from tests.web.test_pages import code_in, sign_in, text_of
from tests.web.test_pages_records import rows


def build() -> Recorded:
    """The flows, those that have ended scored."""
    recorded = recorded_flows.build()
    assert scoring.score_due() == 2
    return recorded


world = worlds.shared(build)
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("world")]


@pytest.fixture
def auditor() -> api_client.Caller:
    return api_client.Caller(api_client.auditor_key())


def pair(world: Recorded) -> tuple[DecisionRecord, DecisionRecord]:
    """The record of an end that was aborted, and the one with its scores."""
    return world.row("aborted 2"), world.row("aborted 3")


def test_a_list_leaves_out_what_is_superseded_unless_it_is_asked_for(world: Recorded) -> None:
    client = sign_in(Role.AUDITOR)
    assert "aborted 2" not in rows(world, text_of(client, "/records/"))
    page = text_of(client, "/records/?superseded=all")
    assert {"aborted 2", "aborted 3"} <= set(rows(world, page))
    assert "Superseded" in page
    assert set(rows(world, text_of(client, "/records/?superseded=only"))) == {"aborted 2", "cancelled 1"}
    assert "x is not a value of superseded." in text_of(client, "/records/?superseded=x")


def test_records_are_found_by_result_and_by_evaluator(world: Recorded) -> None:
    client = sign_in(Role.AUDITOR)
    assert rows(world, text_of(client, "/records/?scorecard=failed")) == ["aborted 3"]
    assert rows(world, text_of(client, "/records/?failed_evaluator=policy")) == ["aborted 3"]
    assert rows(world, text_of(client, "/records/?failed_evaluator=safety")) == []
    assert rows(world, text_of(client, "/records/?scorecard=unscored")) == ["cancelled 2"]
    page = text_of(client, "/records/?scorecard=failed")
    assert "Policy, Utility" in page
    assert code_in(page) == []


def test_a_record_shows_each_score_with_its_reason(world: Recorded) -> None:
    last, scored = pair(world)
    client = sign_in(Role.AUDITOR)
    page = text_of(client, f"/records/{scored.record_id}/")
    for words in (
        "standard@1.0.0",
        "Below the minimum: policy 0 of 0.5, utility 0 of 0.5.",
        "Of 1 policy decisions: 1 stopped by a person.",
        "The kind declares no target for the time it may take.",
        "0, minimum 0.5",
        f"/records/{last.record_id}/",
    ):
        assert words in page, words
    before = text_of(client, f"/records/{last.record_id}/")
    assert "Superseded by" in before
    assert f"/records/{scored.record_id}/" in before
    assert "Not scored yet" in before
    assert code_in(page) == code_in(before) == []


def test_the_api_searches_by_score_and_names_what_is_superseded(
    world: Recorded, auditor: api_client.Caller
) -> None:
    last, scored = pair(world)

    def found(query: str) -> dict[str, Any]:
        answer: dict[str, Any] = auditor.get(f"/audit/records?{query}").ok()
        return answer

    (record,) = found("scorecard=failed&failed_evaluator=policy")["records"]
    assert (record["record_id"], record["scorecard"]["policy"]) == (scored.record_id, "0")
    assert found("superseded=only")["superseded_by"][last.record_id] == scored.record_id
    assert found("scorecard=failed")["superseded_by"] == {}
    of_flow = auditor.get(f"/audit/flows/{last.dfid}/records").ok()
    assert [each["record_id"] for each in of_flow["records"]][-2:] == [last.record_id, scored.record_id]
    assert of_flow["superseded_by"] == {last.record_id: scored.record_id}
    assert auditor.get("/audit/records?scorecard=good").status == 422
    assert auditor.get("/audit/records?failed_evaluator=speed").status == 422
