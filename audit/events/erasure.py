"""Words of a whole flow that were erased: the digests and commitments of other entries stay."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Strict

from audit.events.base import Event, Kind, Text


class AttestedStatement(BaseModel):
    """A statement that was erased with a valid signature: the same house signs its digest instead."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    statement_digest: Text
    signature: Text
    key_id: Text


class FlowErased(Event):
    """`counts` are the cells that were emptied, by table and column; `payloads` are those behind commitments.

    `guessable` counts the digests without a salt that stay: who guesses the words can confirm them by one.
    `salted_digests` are the others: their bytes had a salt in them, which is erased with the words.
    """

    kind = Kind.FLOW_ERASED
    reason: Text
    counts: dict[str, int]
    payloads: int
    guessable: int
    statements: Annotated[tuple[AttestedStatement, ...], Strict(False)] = ()
    salted_digests: Annotated[tuple[Text, ...], Strict(False)] = ()
