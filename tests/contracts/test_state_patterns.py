"""Which events a receiver gets: kinds of entries, or changes of facts and nothing else."""

import pytest

from runtime.contracts import receiver


@pytest.mark.parametrize(
    ("patterns", "agent_id"), [(("state:changed",), ""), (("state:changed@trader",), "trader")]
)
def test_changes_of_facts_are_chosen_alone(patterns: tuple[str, ...], agent_id: str) -> None:
    assert receiver.wrong_pattern(patterns) is None
    assert receiver.gets_state(patterns)
    assert receiver.state_reader(patterns) == agent_id
    assert receiver.is_wanted(patterns, "fact:written")
    assert not receiver.is_wanted(patterns, "escalation:opened")
    assert "nothing else" in (receiver.wrong_pattern((*patterns, "escalation:*")) or "")


@pytest.mark.parametrize("pattern", ["state:changed@", "state:changes", "state:*", "fact@trader"])
def test_other_words_choose_none(pattern: str) -> None:
    assert not receiver.gets_state((pattern,))
    assert "No kind of event" in (receiver.wrong_pattern((pattern,)) or "")


def test_kinds_of_entries_are_chosen_as_before() -> None:
    assert receiver.wrong_pattern(("fact:written", "escalation:*", "*")) is None
    assert not receiver.gets_state(("fact:written", "*"))
    assert receiver.state_reader(()) == ""
    assert receiver.wrong_pattern(()) is not None
