"""What a person asks for, as the form said it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from escalations.contracts import Action


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What the form said. `params` is a JSON object for MODIFY, `receipt` for MARK_DONE.

    `no_effect` states that an earlier call in doubt did not take effect and will not.
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
    no_effect: bool = False
