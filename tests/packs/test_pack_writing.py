"""What an editor begins with reads back to the document it was made from."""

from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from runtime.contracts.policy_kind import KindDocument
from runtime.registry.services import document_reading, document_writing
from tests.support import gate_cases

pytestmark = pytest.mark.once

DEMO = Path(__file__).parents[2] / "demo" / "paper-brokerage.yaml"


def again(kind: KindDocument) -> Any:
    text = document_writing.as_yaml(kind)
    return document_reading.read_document(
        text=text, source=document_reading.Source(name="x"), contract=KindDocument
    )


def test_every_document_of_the_demo_comes_back_whole() -> None:
    read = document_reading.read(text=DEMO.read_text(), name="demo")
    assert isinstance(read, document_reading.Read)
    for kind in read.pack.policy_kinds:
        assert again(kind) == kind
    for agent in read.pack.agents:
        text = document_writing.as_yaml(agent.manifest)
        source = document_reading.Source(name="x")
        assert document_reading.read_document(text=text, source=source, contract=type(agent.manifest)) == (
            agent.manifest
        )


def test_fields_come_in_their_order_and_defaults_are_left_out() -> None:
    text = document_writing.as_yaml(gate_cases.kind())
    assert text.startswith("kind: ADJUST_POSITION\nversion: 1.2.0\ntitle: Adjust a position\nrisk_tier: T1\n")
    assert "on_unknown" not in text


@pytest.mark.parametrize(
    "words", ["1e5", "null", "~", "true", "1.0", "-0", "yes", "2026-01-02", "<<", "&a", "a\nb", "a\x85\nb"]
)
def test_a_text_that_looks_like_something_else_stays_a_text(words: str) -> None:
    kind = gate_cases.kind(title=words, description=words)
    assert again(kind) == kind


@hypothesis.settings(deadline=None)
@hypothesis.given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60))
def test_any_text_comes_back(words: str) -> None:
    kind = gate_cases.kind(description=words)
    assert again(kind) == kind
