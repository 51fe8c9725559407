"""What a choice comes to once those are heard who were consulted: never more than before."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contracts.consultation import ConsultationState, Consulted
from runtime.contracts.decision import ActionFacts, ConsultationInput, Method
from runtime.contracts.policy_kind import RiskTier
from runtime.kernel import hearing
from runtime.kernel.hearing import Heard, Unheard
from tests.kernel.test_consensus import voice

FACTS = ActionFacts(risk_tier=RiskTier.T1, threshold=0.7, needs_person=False)


def choice(**changes: Any) -> Unheard:
    held = {"method": Method.REFINE, "option": "A", "confidence": 0.9, "has_others": True, "why": ""}
    return Unheard(**{**held, **changes})


def hear(*voices: Consulted, facts: ActionFacts = FACTS, talk: Any = None, **changes: Any) -> Heard:
    return hearing.hear(ConsultationInput(consulted=voices, **(talk or {})), facts, choice(**changes))


ASKS = {"wanted": True, "providers": ("voice",)}


def test_before_anybody_could_be_consulted() -> None:
    heard = hearing.hear(None, FACTS, choice())
    assert (heard.method, heard.why, heard.found, heard.note) == (
        Method.REFINE,
        "",
        None,
        hearing.NO_CAPABILITY,
    )
    low = hearing.hear(None, FACTS, choice(confidence=0.1))
    assert (low.method, low.confidence) == (Method.ABSTAIN, 0.1)
    denied = hearing.hear(None, FACTS, choice(method=Method.DENY, option="", why="No."))
    assert (denied.method, denied.why) == (Method.DENY, "No.")
    assert hearing.consultations(None) == ()


def test_without_answers_the_choice_stands() -> None:
    heard = hear()
    assert (heard.method, heard.confidence, heard.note) == (
        Method.REFINE,
        0.9,
        "Nobody has answered about these options.",
    )
    assert heard.found is not None


def test_a_tier_that_needs_a_person_still_does() -> None:
    heard = hear(voice("A"), facts=FACTS.model_copy(update={"needs_person": True}))
    assert (heard.method, heard.why) == (Method.ABSTAIN, "Risk tier T1 always needs a person.")


@pytest.mark.parametrize(
    ("changes", "method"),
    [
        ({}, Method.CONSULT),
        ({"has_others": False}, Method.REFINE),
        ({"has_others": False, "confidence": 0.1}, Method.CONSULT),
        ({"method": Method.ABSTAIN, "why": "Unclear.", "has_others": False}, Method.CONSULT),
        ({"method": Method.ABSTAIN, "why": "Nothing.", "option": ""}, Method.ABSTAIN),
        ({"method": Method.DENY, "why": "No.", "option": ""}, Method.DENY),
        ({"method": Method.DENY, "why": "No."}, Method.DENY),
    ],
)
def test_others_are_asked_where_the_choice_is_not_clear(changes: Any, method: Method) -> None:
    assert hear(talk=ASKS, **changes).method is method


def test_nobody_is_asked_without_a_provider_or_a_wish() -> None:
    assert hear(talk={"wanted": True, "why_none": "None."}).note.endswith("options. None.")
    assert hear(talk={"providers": ("voice",)}).method is Method.REFINE
    assert hear(voice("A"), talk=ASKS).method is Method.REFINE, "they have been heard"


def test_what_is_asked_is_waited_for() -> None:
    heard = hear(voice("A"), voice())
    assert heard.method is Method.CONSULT
    assert heard.why == "Of 2 that are consulted, 1 may still answer. Decide again then."
    assert hear(voice(counts=False)).method is Method.REFINE


def test_dissent_lowers_and_most_against_it_lead_to_a_person() -> None:
    third = hear(voice("A"), voice("A"), voice("B"))
    assert (third.method, third.confidence) == (Method.ABSTAIN, 0.6667)
    most = hear(voice("B"), voice("B"), voice("A"), facts=FACTS.model_copy(update={"threshold": 0.0}))
    assert most.method is Method.ABSTAIN
    assert "most chose B" in most.why
    assert "permit nothing" in most.note


def test_each_consultation_is_told_with_what_the_provider_said() -> None:
    said = voice("A", counts=False, reason="Up.", stated={"voices": 3}, dissent=("Not all.",))
    (told,) = hearing.consultations(ConsultationInput(consulted=(said,)))
    assert told == {
        "provider": "voice",
        "consultation_id": "c-voice",
        "consensus_metrics": {
            "capability": "advice",
            "state": "ANSWERED",
            "counts": False,
            "choice": "A",
            "confidence": None,
            "reason": "Up.",
            "stated": {"voices": 3},
            "dissent": ["Not all."],
        },
    }
    assert "1 were asked about other options" in hear(said).note


VOICES = st.lists(
    st.builds(
        voice,
        st.sampled_from(["A", "B", "none of them", None]),
        counts=st.booleans(),
        state=st.sampled_from(list(ConsultationState)),
    ),
    max_size=6,
)


@given(VOICES, st.floats(min_value=0, max_value=1), st.sampled_from(list(Method)), st.booleans())
def test_answers_only_ever_restrict(
    voices: list[Consulted], confidence: float, method: Method, has_others: bool
) -> None:
    asked = choice(confidence=confidence, method=method, has_others=has_others)
    alone = hearing.hear(ConsultationInput(), FACTS, asked)
    heard = hearing.hear(ConsultationInput(consulted=tuple(voices)), FACTS, asked)
    assert heard.confidence <= alone.confidence
    acts = (Method.ADOPT, Method.REFINE)
    assert heard.method not in acts or alone.method in acts
