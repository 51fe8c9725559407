"""What a person asks for, or states, as given in the form."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from escalations.contracts import Action
from runtime.contracts.states import Effect


@dataclass(frozen=True, kw_only=True)
class DecisionRequest:
    """What the form contains. `params` is a JSON object for MODIFY, `receipt` for MARK_DONE.

    `instruction` is where REDIRECT leads.
    `effect` states what became of an earlier call in doubt; None: the form does not state it.
    `shown_at_ms` is when the server sent the page with this revision to this person (Unix milliseconds), None
    where the form does not come from a page; `client_reported` is what the browser says of the reading, and
    `checked` the answer to the question of `pace`.
    """

    action: Action
    evidence_hash: str
    version: int
    impact: str
    justification: str
    conditions: tuple[str, ...] = ()
    params: Mapping[str, Any] | None = None
    receipt: Mapping[str, Any] | None = None
    typed_again: str = ""
    instruction: str = ""
    effect: Effect | None = None
    shown_at_ms: int | None = None
    client_reported: Mapping[str, Any] | None = None
    checked: str = ""


@dataclass(frozen=True, kw_only=True)
class StatementRequest:
    """What the form states about one call: the attempt it was shown as, what became of it, and why."""

    intent_id: UUID
    number: int
    effect: Effect | None
    reason: str
