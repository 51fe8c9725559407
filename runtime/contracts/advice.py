"""Bodies of the calls that ask for advice: `rules` and `decide`. Fields are only ever appended."""

from typing import Annotated

from pydantic import Field, JsonValue, StringConstraints

from runtime.contracts.api_schemas import Body, Dfid
from runtime.contracts.decision import MAX_OBJECTIVES, MAX_OPTIONS, Objective, Option
from runtime.contracts.kind_types import ParamName
from runtime.contracts.ruleset import MAX_FEATURES


class RulesRequest(Body):
    """What a ruleset is asked: its name, or `name@version`, and the features by name.

    `ages_s` says of features how old their values are, in seconds; without it they are new.
    """

    ruleset: Annotated[str, StringConstraints(min_length=1, max_length=129)]
    features: Annotated[dict[ParamName, JsonValue], Field(max_length=MAX_FEATURES)] = Field(
        default_factory=dict
    )
    ages_s: Annotated[
        dict[ParamName, Annotated[int, Field(ge=0, le=31_536_000)]], Field(max_length=MAX_FEATURES)
    ] = Field(default_factory=dict)


class DecideRequest(Body):
    """What is to be decided: by which objectives, between which options, and on which rule output."""

    objectives: Annotated[tuple[Objective, ...], Field(max_length=MAX_OBJECTIVES)] = ()
    options: Annotated[tuple[Option, ...], Field(max_length=MAX_OPTIONS)] | None = None
    rule_output_id: Dfid | None = None
