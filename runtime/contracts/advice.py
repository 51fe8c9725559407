"""Bodies of the calls that ask for advice: `rules`, `decide`, `consultations`. Fields are only appended."""

from typing import Annotated

from pydantic import Field, JsonValue, StringConstraints

from runtime.contracts.api_schemas import At, Body, Dfid
from runtime.contracts.capability import CapabilityName
from runtime.contracts.consultation import MAX_PROVIDERS, MAX_TIME_S, ConsultationState
from runtime.contracts.decision import MAX_OBJECTIVES, MAX_OPTIONS, Objective, Option, OptionAction, OptionId
from runtime.contracts.kind_types import KindName, ParamName
from runtime.contracts.ruleset import MAX_FEATURES


class RulesRequest(Body):
    """What a ruleset is asked: its name, or `name@version`, and the features by name.

    `ages_s` says of features how old their values are, in seconds; without it they are new. `policy_kind` is
    what the agent thinks of proposing: the action that Cedar policies are asked about.
    """

    ruleset: Annotated[str, StringConstraints(min_length=1, max_length=129)]
    features: Annotated[dict[ParamName, JsonValue], Field(max_length=MAX_FEATURES)] = Field(
        default_factory=dict
    )
    ages_s: Annotated[
        dict[ParamName, Annotated[int, Field(ge=0, le=31_536_000)]], Field(max_length=MAX_FEATURES)
    ] = Field(default_factory=dict)
    policy_kind: KindName | None = None


class Consult(Body):
    """Whom to consult: at most `providers` of those that the registry names for a capability.

    `time_s` is how long they may take, `cost_units` what one call may cost; the manifest's bounds hold too.
    """

    capability_name: CapabilityName
    question: Annotated[str, StringConstraints(min_length=1, max_length=2000)]
    providers: Annotated[int, Field(ge=1, le=MAX_PROVIDERS)] = 3
    time_s: Annotated[int, Field(ge=1, le=MAX_TIME_S)] | None = None
    cost_units: Annotated[int, Field(ge=0, le=1_000_000_000)] | None = None


class ConsultedOption(Body):
    """One way to act that providers are asked about."""

    id: OptionId
    action: OptionAction


class ConsultRequest(Consult):
    """A question of the agent itself, about some options."""

    options: Annotated[tuple[ConsultedOption, ...], Field(min_length=1, max_length=MAX_OPTIONS)]


class ConsultationShown(Body):
    """A consultation of a flow. `choice`, `confidence` and `reason` are claims of the provider."""

    consultation_id: str
    provider_agent_id: str
    capability_name: str
    conversation_id: str
    message_id: str
    state: ConsultationState
    asked_at: At
    deadline: At
    cost_units: int | float
    choice: str | None = None
    confidence: int | float | None = None
    reason: str = ""


class ConsultationsAnswer(Body):
    """The consultations of a flow, oldest first."""

    consultations: tuple[ConsultationShown, ...]


class DecideRequest(Body):
    """What is to be decided: by which objectives, between which options, and on which rule output.

    With `consult`, providers are asked where the choice is not clear; they are named in the package, and
    what they answered counts in the next one.
    """

    objectives: Annotated[tuple[Objective, ...], Field(max_length=MAX_OBJECTIVES)] = ()
    options: Annotated[tuple[Option, ...], Field(max_length=MAX_OPTIONS)] | None = None
    rule_output_id: Dfid | None = None
    consult: Consult | None = None
