"""The envelope of a message between agents, and whose stream its entries are in."""

import pytest
from pydantic import ValidationError

from audit import actors, canonical
from runtime.contracts.message import Envelope, MessageType
from tests.support.talking import message


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("Heartbeat", MessageType.HEARTBEAT),
        ("Health", MessageType.HEARTBEAT),
        ("NACK", MessageType.ERROR),
        ("Error/NACK", MessageType.ERROR),
        ("Cancel", MessageType.CANCEL),
    ],
)
def test_either_word_of_the_paper_is_taken(word: str, kind: MessageType) -> None:
    sent = Envelope.model_validate_json(canonical.encode(message(message_type=word)))
    assert sent.headers.message_type is kind


@pytest.mark.parametrize("word", ["heartbeat", "", 7, None])
def test_another_word_is_not(word: object) -> None:
    with pytest.raises(ValidationError):
        Envelope.model_validate_json(canonical.encode(message(message_type=word)))


def test_conversations_and_targets_have_streams_of_their_own() -> None:
    assert actors.conversation("c-1") == "conversation:c-1"
    assert actors.target("broker") == "target:broker"
