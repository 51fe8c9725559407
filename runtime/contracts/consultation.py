"""Consultations of other agents (IAE 3.5): how they end, what was answered, and how far the voices agree.

All of it is a claim of providers. It can lower a recommendation, and permits nothing.
"""

from typing import Annotated, Any

from pydantic import Field

from runtime.contracts.document import Contract
from runtime.contracts.ruleset import Certainty
from runtime.contracts.states import Choice

# What a provider may choose beside the options. No option can have this id.
NONE_OF_THEM = "none of them"
# Providers of one question.
MAX_PROVIDERS = 5
MAX_TIME_S = 3600
MICROS = 1_000_000


class ConsultationState(Choice):
    """ASKED until the provider answers, says with an Error that it cannot, or lets the deadline pass."""

    ASKED = "ASKED"
    ANSWERED = "ANSWERED"
    DECLINED = "DECLINED"
    OVERDUE = "OVERDUE"


class ConsultationBudget(Contract):
    """What the consultations of one flow may take: how many, and their cost in whole cost units together.

    `time_s` is how long each provider may take. Costs are those that providers advertise.
    """

    per_flow: Annotated[int, Field(ge=1, le=20)]
    cost_units: Annotated[int, Field(ge=0, le=1_000_000_000)]
    time_s: Annotated[int, Field(ge=1, le=MAX_TIME_S)] = 60


class Consulted(Contract):
    """One consultation as a recommendation sees it.

    `choice` is the id of an option, or NONE_OF_THEM; `stated` the provider's own consensus metrics. It
    `counts` where it was asked about the same options as are being decided on.
    """

    consultation_id: str
    provider: str
    capability: str
    state: ConsultationState
    counts: bool
    choice: str | None = None
    confidence: Certainty | None = None
    reason: str = ""
    stated: dict[str, Any] = Field(default_factory=dict)
    dissent: tuple[str, ...] = ()


class Dissenting(Contract):
    """A provider that chose something else than was selected."""

    provider: str
    choice: str
    reason: str


class Consensus(Contract):
    """How far the providers agree; shares are of those that answered, from 0 to 1.

    `leading` is what most chose, `agreement` their share, `support` the share of what was selected.
    `dispersion` is how likely two answers differ when they are drawn one after the other, each from all of
    them: 0 where all are alike. `abstained` are those that declined or let their deadline pass.
    """

    asked: int
    answered: int
    abstained: int
    votes: dict[str, int]
    leading: str | None
    agreement: Certainty | None
    support: Certainty | None
    dispersion: Certainty | None
    dissent: tuple[Dissenting, ...]
