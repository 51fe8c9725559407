"""Event kinds: every kind has a class, a presenter and one stable written form."""

import re
import typing
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import ValidationError

from audit import canonical, events, presenters
from audit.events import Event, Kind

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def sample(event: type[Event], *, optional: bool) -> Event:
    """An event with every field filled, or with the required ones only."""
    values: dict[str, Any] = {}
    for name, field in event.model_fields.items():
        if optional or field.is_required():
            values[name] = _value(str(field.annotation))
    return event(**values)


def _value(annotation: str) -> Any:
    if "Reason" in annotation:
        return [
            {"check": "limits", "code": "RISK_LIMIT_EXCEEDED"},
            {"check": "limits", "code": "RISK_LIMIT_EXCEEDED"},
        ]
    if "OutcomeFinding" in annotation:
        return [{"code": "OUTPUTS_INVALID", "place": "outputs_schema"}]
    if "AttestedStatement" in annotation:
        return [{"statement_digest": "ab" * 32, "signature": "cd" * 64, "key_id": "0123456789abcdef"}]
    if "ScoreEntry" in annotation:
        score = {"evaluator": "policy", "version": "1.0.0", "value": "1", "minimum": "0.5", "passed": True}
        return [{**score, "reason": "No limit was crossed."}]
    if "PrunedFact" in annotation:
        return [{"path": "price.AAPL", "first": 1, "through": 3}]
    if "NameTried" in annotation:
        return [{"name": "user:1", "failed": 2, "locked": 1}]
    for word, value in (
        ("dict[str, int]", {"proposal.body": 2}),
        ("dict[str, typing.Any]", {"seed": 7}),
        ("tuple[int", [503, 504]),
        ("tuple[typing.Optional", [AT, None]),
        ("tuple", ["one", "two"]),
        ("Datetime", AT),
        ("bool", True),
        ("int", 1),
        ("str", "text"),
    ):
        if word in annotation:
            return value
    raise AssertionError(annotation)


def test_every_kind_is_a_noun_and_a_past_tense() -> None:
    for kind in Kind:
        assert re.fullmatch(r"[a-z_]+:[a-z_]+", kind)
        assert kind.name == kind.value.replace(":", "_").upper()


def test_every_kind_has_one_class_of_its_name() -> None:
    for kind in Kind:
        event = events.EVENTS[kind]
        assert event.kind is kind
        assert event.__name__ == "".join(word.title() for word in kind.name.split("_"))
        assert getattr(events, event.__name__) is event
        assert event.__name__ in events.__all__


@pytest.mark.parametrize("optional", [True, False])
def test_every_payload_survives_the_canonical_form(optional: bool) -> None:
    for kind in Kind:
        event = sample(events.EVENTS[kind], optional=optional)
        stored = canonical.decode(canonical.encode(event.payload()))
        assert events.read(kind, stored) == event


@pytest.mark.parametrize("optional", [True, False])
def test_every_kind_reads_as_a_sentence(optional: bool) -> None:
    for kind in Kind:
        presenter = presenters.PRESENTERS[kind]
        sentence = presenter.sentence(sample(events.EVENTS[kind], optional=optional).payload())
        assert sentence.endswith("."), kind
        assert "None" not in sentence, kind
        assert sentence[0] == sentence[0].upper() or sentence.startswith("text"), kind
        assert presenter.icon, kind
        assert presenter.title, kind
        assert presenters.present(kind.value) is presenter


def test_every_icon_is_in_the_icon_set() -> None:
    icons = (Path(__file__).parents[2] / "static" / "icons.svg").read_text()
    assert [each.icon for each in presenters.PRESENTERS.values() if f'id="{each.icon}"' not in icons] == []


def test_a_kind_of_a_later_version_has_a_plain_presenter() -> None:
    presenter = presenters.present("flow:teleported")
    assert presenter.lane is presenters.Lane.SYSTEM
    assert presenter.sentence({}) == "Recorded by another version."


def test_a_field_that_an_older_entry_lacks_reads_as_a_dash() -> None:
    assert presenters.PRESENTERS[Kind.FLOW_OPENED].sentence({}) == "Opened by -."


def test_numbers_agree_with_their_nouns() -> None:
    usage = presenters.PRESENTERS[Kind.USAGE_REPORTED].sentence
    assert usage({"tokens": 1, "cost_usd": None}) == "The agent reported 1 token."
    assert usage({"tokens": 2, "cost_usd": "0.10"}) == "The agent reported 2 tokens and 0.10 USD."


def test_what_was_metered_is_told_from_what_an_agent_reports() -> None:
    usage = presenters.PRESENTERS[Kind.USAGE_REPORTED].sentence
    said = {"tokens": 2, "cost_usd": None, "intent_id": "i", "number": 1}
    assert usage(said) == "Attempt 1 used 2 tokens, as its answer says."
    unread = {**said, "tokens": 0, "unread": ["tokens", "cost_usd"]}
    assert usage(unread) == (
        "Attempt 1 used 0 tokens, as its answer says; the answer does not say tokens and cost_usd."
    )


def test_a_verdict_names_each_code_once() -> None:
    sentence = presenters.PRESENTERS[Kind.VERDICT_GIVEN].sentence
    reasons = [{"check": "a", "code": "X"}, {"check": "b", "code": "Y"}, {"check": "c", "code": "X"}]
    assert sentence({"verdict": "REJECT", "reasons": reasons}) == "Verdict: REJECT: X, Y."
    assert sentence({"verdict": "ACCEPT", "reasons": []}) == "Verdict: ACCEPT."


def test_an_unremarkable_outcome_names_no_deviation() -> None:
    sentence = presenters.PRESENTERS[Kind.OUTCOME_RECORDED].sentence
    assert sentence({"status": "SUCCESS", "deviations": 0}) == "Ended as SUCCESS."


def test_events_cannot_be_changed() -> None:
    event = events.SystemStopped(reason="drill")
    with pytest.raises(ValidationError):
        event.reason = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    "values",
    [
        {"user_id": "1", "roles": ()},
        {"user_id": True, "roles": ()},
        {"user_id": 1},
        {"user_id": 1, "roles": (), "more": 1},
    ],
)
def test_events_take_exactly_their_fields(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        events.UserAdded(**values)


def test_times_without_a_zone_are_refused() -> None:
    naive = AT.replace(tzinfo=None)
    with pytest.raises(ValidationError):
        events.ContextCompiled(context_ref="c", fact_count=1, expires_at=naive)


def test_ids_and_enum_members_are_written_as_text() -> None:
    class State(StrEnum):
        ACTIVE = "ACTIVE"

    event = events.FlowMoved(from_state=State.ACTIVE, to_state="CLOSED", reason="")
    assert type(event.payload()["from_state"]) is str
    uuid = UUID(int=1)
    expired = events.EscalationExpired(escalation_id=typing.cast(str, uuid))
    assert expired.payload() == {"escalation_id": str(uuid)}


def test_reading_ignores_what_newer_code_added() -> None:
    assert events.read("user:deactivated", {"user_id": 1, "later": 2}) == events.UserDeactivated(user_id=1)


@pytest.mark.parametrize(("kind", "payload"), [("no:such", {}), ("user:deactivated", {})])
def test_reading_refuses_what_it_cannot_know(kind: str, payload: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"no:such|user_id"):
        events.read(kind, payload)
