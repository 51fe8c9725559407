"""The small types that a policy kind is written in: names, versions, expressions, and how grave a rule is."""

from enum import StrEnum
from typing import Annotated

from pydantic import JsonValue, StringConstraints

SEMVER_PATTERN = (
    r"^(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})"
    r"(-[0-9A-Za-z-]{1,32}(\.[0-9A-Za-z-]{1,32}){0,8})?(\+[0-9A-Za-z-]{1,32}(\.[0-9A-Za-z-]{1,32}){0,8})?$"
)
MAX_EXPRESSION_CHARS = 2000
MAX_OUTPUTS = 20
# Of what an invariant is given, and of the invariants that a kind asserts.
MAX_GIVEN = 10
MAX_ASSERTIONS = 20
MAX_RULESETS = 5
MAX_PRECONDITIONS = 10
MAX_JURISDICTIONS = 20

KindName = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]{0,63}$")]
SemVer = Annotated[str, StringConstraints(pattern=SEMVER_PATTERN, max_length=64)]
# Where agents run, as their keys and manifests name it.
ENVIRONMENT = r"^[a-z0-9][a-z0-9-]{0,63}$"
Environment = Annotated[str, StringConstraints(pattern=ENVIRONMENT)]
Slug = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$")]
RulesetName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
# One version of a ruleset, as `name@version`.
RulesetRef = Annotated[
    str, StringConstraints(pattern=rf"^[a-z0-9][a-z0-9-]{{0,63}}@{SEMVER_PATTERN[1:]}", max_length=129)
]
# Whose law an action is under, such as `EU` or `US-NY`.
Jurisdiction = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
TargetName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
ToolName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./-]{0,127}$")]
Segment = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
ParamName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]
Title = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Source = Annotated[str, StringConstraints(min_length=1, max_length=MAX_EXPRESSION_CHARS)]
Template = Annotated[str, StringConstraints(min_length=1, max_length=MAX_EXPRESSION_CHARS)]
JsonSchema = dict[str, JsonValue]


class Severity(StrEnum):
    """How grave a broken rule is, for people; it changes no verdict."""

    LOW = "LOW"
    MEDIUM = "MEDIUM"
    HIGH = "HIGH"
    CRITICAL = "CRITICAL"


class OnFail(StrEnum):
    """What a bound that does not hold leads to: a Fail or a Refer."""

    REJECT = "REJECT"
    ESCALATE = "ESCALATE"
