"""Every word that is written down for ever has a payload, a presenter and a place in the docs."""

from pathlib import Path

from audit import events, presenters
from dir_console.management.commands import docs_fresh
from runtime.contracts import reasons, states
from runtime.kernel import lifecycle
from tests.architecture import tree


def test_every_kind_has_exactly_one_payload() -> None:
    kinds = [payload.kind for payload in docs_fresh.every_subclass(events.Event)]
    assert sorted(kinds) == sorted(events.Kind)


def test_every_kind_has_a_presenter() -> None:
    assert set(presenters.PRESENTERS) == set(events.Kind)


def test_every_kind_stands_in_the_docs() -> None:
    page = tree.text(Path("docs/events.md"))
    assert [kind for kind in events.Kind if f"`{kind}`" not in page] == []


def test_every_reason_has_words_and_stands_in_the_docs() -> None:
    page = tree.text(Path("docs/reasons.md"))
    assert set(reasons.MEANINGS) == set(reasons.Reason)
    assert [reason for reason in reasons.Reason if f"`{reason}`" not in page] == []


def test_every_state_has_its_moves() -> None:
    assert set(lifecycle.MOVES) == set(states.FlowState)
