"""How far those agree who were consulted: counts, shares, dissent, and what they can restrict."""

from typing import Any

import pytest

from runtime.contracts.consultation import NONE_OF_THEM, ConsultationState, Consulted
from runtime.kernel import consensus


def voice(choice: str | None = None, *, provider: str = "voice", **more: Any) -> Consulted:
    state = ConsultationState.ASKED if choice is None else ConsultationState.ANSWERED
    return Consulted(
        **{
            "consultation_id": f"c-{provider}",
            "provider": provider,
            "capability": "advice",
            "state": state,
            "counts": True,
            "choice": choice,
            **more,
        }
    )


def test_nobody_was_asked() -> None:
    found = consensus.measure([], selected="A")
    assert (found.asked, found.answered, found.abstained, found.votes) == (0, 0, 0, {})
    assert (found.leading, found.agreement, found.support, found.dispersion) == (None, None, None, None)
    assert consensus.objection(found, selected="A") == ""
    assert consensus.lowered(0.9, found) == 0.9


def test_one_of_three_disagrees() -> None:
    voices = [
        voice("A", provider="one"),
        voice("A", provider="two"),
        voice("B", provider="three", reason="No"),
    ]
    found = consensus.measure(voices, selected="A")
    assert (found.votes, found.leading) == ({"A": 2, "B": 1}, "A")
    assert (found.agreement, found.support, found.dispersion) == (0.6667, 0.6667, 0.4444)
    assert [(each.provider, each.choice, each.reason) for each in found.dissent] == [("three", "B", "No")]
    assert consensus.objection(found, selected="A") == ""
    assert consensus.lowered(0.9, found) == 0.6667
    assert consensus.lowered(0.5, found) == 0.5, "an answer never raises anything"


def test_all_alike_have_no_dispersion() -> None:
    found = consensus.measure([voice("A"), voice("A")], selected="A")
    assert (found.agreement, found.dispersion, found.dissent) == (1.0, 0.0, ())
    assert consensus.lowered(0.9, found) == 0.9


def test_most_choose_something_else() -> None:
    found = consensus.measure([voice("B"), voice(NONE_OF_THEM), voice("B")], selected="A")
    assert (found.leading, found.support, len(found.dissent)) == ("B", 0.0, 3)
    assert consensus.objection(found, selected="A") == "Of 3 that were consulted and answered, most chose B."


def test_of_two_alike_the_selected_one_leads_then_the_first_by_name() -> None:
    tie = [voice("C"), voice("B")]
    assert consensus.measure(tie, selected="C").leading == "C"
    assert consensus.measure(tie, selected="A").leading == "B"
    alone = consensus.measure(tie, selected=None)
    assert (alone.leading, alone.support) == ("B", None)
    assert [each.choice for each in alone.dissent] == ["C"]


@pytest.mark.parametrize("state", [ConsultationState.DECLINED, ConsultationState.OVERDUE])
def test_who_does_not_answer_abstains(state: ConsultationState) -> None:
    found = consensus.measure([voice(state=state), voice()], selected="A")
    assert (found.asked, found.answered, found.abstained) == (2, 0, 1)
    words = consensus.objection(found, selected="A")
    assert words == "Nobody of the 2 that were consulted answered in time."


def test_who_was_asked_about_other_options_does_not_count() -> None:
    found = consensus.measure([voice("B", counts=False), voice("A")], selected="A")
    assert (found.asked, found.votes) == (1, {"A": 1})
