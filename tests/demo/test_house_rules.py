"""The nine scenes of the house rules, played against a console that runs as its users start it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from demo import agents
from demo.house_rules import (
    MOST_OPEN,
    OVERCONFIDENT,
    SHARES_ASKED,
    WAYS,
    BlockTrader,
    ListingClerk,
    Overconfident,
    Researcher,
    Rulebook,
)
from runtime.contracts.calibration import LEAST_PAIRS
from tests.demo import acting
from tests.demo.acting import Admin
from tests.faults.processes import ROOT
from tests.faults.stack import Stack
from tests.support.wait_until import until

PACK = ROOT / "demo" / "house-rules.yaml"
MAPS = "/agents/overconfident-trader/calibration/"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory, migrated_file: Path) -> Iterator[Stack]:
    """An embedded console with the house rules, and a broker process; nobody proposes by itself."""
    folder = tmp_path_factory.mktemp("house")
    with acting.console_of(folder, migrated_file, pack=PACK) as running:
        yield running


@pytest.fixture(scope="module")
def admin(console: Stack) -> Iterator[Admin]:
    with acting.signed_in(base_url=console.base_url, log=console.logs()) as admin:
        yield admin


ENTRIES = """
from audit.models import LedgerEntry
entries = LedgerEntry.objects.filter(stream="{dfid}", kind="{kind}").order_by("seq")
answer = [entry.payload for entry in entries]
"""
ADVICE = """
from audit import canonical
from runtime.advice.models import RuleOutput
output = RuleOutput.objects.get(flow="{dfid}")
answer = [canonical.decode(bytes(output.body)), canonical.decode(bytes(output.packages.get().body))]
"""
OUTCOME = """
from runtime.models import Outcome
answer = list(Outcome.objects.filter(intent__flow="{dfid}").values_list("status", flat=True))
"""
PAUSED = """
from escalations.models import Escalation
answer = [
    [str(row.pk), row.reason, row.state]
    for row in Escalation.objects.filter(flow="{dfid}", family="OPERATIONAL")
]
"""


def _entries(console: Stack, dfid: str, kind: str) -> list[dict[str, Any]]:
    """What the entries of this kind hold, in their order in the flow."""
    found: list[dict[str, Any]] = console.ask(ENTRIES.format(dfid=dfid, kind=kind))
    return found


def _ends_as(console: Stack, dfid: str, status: str) -> None:
    until(lambda: console.ask(OUTCOME.format(dfid=dfid)) == [status], timeout_s=90)


def test_the_demo_plays_each_agent_of_the_pack() -> None:
    assert set(acting.agents_of(PACK)) < set(agents.CAST)


def test_the_workflow_holds_the_careless_researcher_to_its_steps(console: Stack) -> None:
    heard = acting.turns(acting.cast(console, Researcher, "careless-researcher"), len(WAYS))

    assert [verdict.verdict for verdict in heard] == ["ACCEPT"] * len(WAYS), (
        "it always finds a way to its note"
    )
    skipped, hurried, failed, stuck = (verdict.dfid for verdict in heard)
    (refused,) = _entries(console, skipped, "step:refused")
    assert (refused["instruction"], refused["policies"]) == ("TOOL_CALL", ["graph", "think_then_verify"])
    (refused,) = _entries(console, hurried, "step:refused")
    assert (refused["codes"], refused["policies"]) == (["RATE_LIMITED"], ["one_call_a_minute"])
    for dfid, demanded in ((failed, "GET_CACHED"), (stuck, "REPLAN")):
        assert _entries(console, dfid, "step:refused") == []
        taken = _entries(console, dfid, "step:taken")
        assert [step["next"] for step in taken if step.get("next")] == [demanded]
        assert demanded in [step["instruction"] for step in taken], "and it takes the step that is demanded"


def test_a_conflict_of_rules_is_decided_by_priority(console: Stack) -> None:
    (verdict,) = acting.turns(acting.cast(console, Rulebook, "rulebook-trader"), 1)

    output, package = console.ask(ADVICE.format(dfid=verdict.dfid))
    (conflict,) = output["conflicts"]
    assert (conflict["rule_ids"], conflict["resolved_by"]) == (["P_BLOCK_DESK", "V_LARGE_TIGHT"], "priority")
    assert [match["rule_id"] for match in output["matches"]] == ["P_BLOCK_DESK", "V_LARGE_TIGHT"], (
        "V_LARGE_WAITS matches as well, and the hit policy of the table leaves it out"
    )
    assert package["selected_action"]["parameters"]["venue"] == "block-desk"
    assert (package["method"], verdict.verdict) == ("adopt", "ACCEPT")


def test_an_unclear_case_is_left_to_a_person(console: Stack) -> None:
    persona = acting.cast(console, Rulebook, "rulebook-trader")
    heard = acting.turns(persona, 4 * MOST_OPEN)

    asked = [verdict for verdict in heard if verdict.verdict == "ESCALATE"]
    assert len(asked) == len(persona.open_escalations) == MOST_OPEN, "people get no more of the same"
    assert {"R_FOLLOWS_DECISION", "LOW_CONFIDENCE"} <= asked[0].codes()
    output, package = console.ask(ADVICE.format(dfid=asked[0].dfid))
    assert output["status"] == "LOW_CONFIDENCE_MATCH"
    assert (package["method"], package["human_review_required"]) == ("abstain", True)


def test_a_calibrated_confidence_calls_a_person(console: Stack, admin: Admin) -> None:
    """It states 0.95 of all that it does, and four in five go well: with an active map that counts."""
    persona = acting.cast(console, Overconfident, "overconfident-trader")
    rounds = -(-LEAST_PAIRS // len(SHARES_ASKED))
    heard = acting.turns(persona, rounds * len(SHARES_ASKED))
    assert {verdict.verdict for verdict in heard} == {"ACCEPT"}, "what is stated is above its threshold"
    for shares, verdict in zip(SHARES_ASKED, heard, strict=False):
        _ends_as(console, verdict.dfid, "FAILED" if shares == max(SHARES_ASKED) else "SUCCEEDED")
    until(lambda: f"{len(heard)} proposals" in _drafted(admin), timeout_s=90)

    drafted = f"{MAPS}?kind=LOCATE_BORROW&map=1"
    page = admin.fill(drafted, f"{MAPS}1/activate/", marker="seen_active", reason="4 in 5")
    assert "Reason: 4 in 5" in page

    (asked,) = acting.turns(persona, 1)
    assert asked.verdict == "ESCALATE"
    (reason,) = asked.reasons
    assert (reason.code, reason.limit) == ("LOW_CONFIDENCE", 0.9)
    assert 0.7 <= float(reason.proposed_value) <= 0.88 < OVERCONFIDENT
    decision = admin.read(f"/escalations/{asked.escalation_id}/")
    assert "calibrat" in decision


def _drafted(admin: Admin) -> str:
    """The page after a map was asked for: nothing is drafted below 30 ends, or of the same ends again."""
    return admin.send(f"{MAPS}?kind=LOCATE_BORROW", f"{MAPS}draft/", kind="LOCATE_BORROW")


def test_a_halt_pauses_a_block_between_its_steps(console: Stack, admin: Admin) -> None:
    persona = acting.cast(console, BlockTrader, "block-trader")
    small, large = acting.turns(persona, 2)

    _ends_as(console, small.dfid, "SUCCEEDED")
    (paused,) = until(lambda: console.ask(PAUSED.format(dfid=large.dfid)), timeout_s=90)
    escalation_id, reason, state = paused
    assert (reason, state) == ("INVARIANT_VIOLATED", "OPEN")
    (checked,) = _entries(console, large.dfid, "invariants:checked")
    assert (checked["place"], checked["step"], checked["violated"]) == (
        "BETWEEN_STEPS",
        "buy",
        ["blocks_trade"],
    )
    assert acting.turns(persona, 1) == [], "it waits for the person"

    page = f"/escalations/{escalation_id}/"
    decided = {"action": "ABORT", "justification": "The halt may last; back to where we were"}
    admin.fill(page, f"{page}decision/", marker="evidence_hash", **decided)
    _ends_as(console, large.dfid, "COMPENSATED")
    persona.listen()
    assert persona.open_escalations == {}
    persona.client.wire.close()


def test_a_person_carries_out_a_step(console: Stack, admin: Admin) -> None:
    persona = acting.cast(console, ListingClerk, "listing-clerk")
    heard = acting.turns(persona, MOST_OPEN + 1)
    assert [verdict.verdict for verdict in heard] == ["ACCEPT"] * MOST_OPEN

    listed = until(lambda: re.findall(r'href="(/tasks/[0-9a-f-]{36}/)"', admin.read("/tasks/")), timeout_s=90)
    assert "Compare the data sheet of ORCL, Oracle, with the source" in admin.read(listed[0])
    answer = {"param:matches": "true", "param:source": "The sheet of the exchange"}
    admin.fill(listed[0], f"{listed[0]}answer/", marker="task_hash", **answer)
    _ends_as(console, heard[0].dfid, "SUCCEEDED")


def test_nothing_of_it_moves_a_position_or_cash(console: Stack) -> None:
    """What these agents do changes no evidence of what others have proposed."""
    rows = console.broker.call("GET", "/effects").body["effects"]

    assert {"/notes", "/routes", "/borrows", "/blocks/sell", "/blocks/undo", "/listings"} <= {
        row["path"] for row in rows
    }
    assert not any({"position", "moves", "cash"} & row["receipt"].keys() for row in rows)
    assert console.ledger_is_whole()
