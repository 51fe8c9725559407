"""The envelope of a proposal (DIR paper, 5.2 and 5.3): a claim, not yet a fact.

Only the envelope is checked here, and a broken one costs no attempt. Whether `params` and
`execution_constraints` fit the policy kind is for the gate to judge.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, JsonValue, StringConstraints
from typing_extensions import TypedDict

from audit.canonical import MAX_SAFE_INTEGER
from runtime.contracts.api_schemas import FACT_PATH, Body, Dfid, Trigger, UserClaim
from runtime.contracts.signed_proposal import Signature

MAX_WINDOW_S = 86_400
MAX_SEEN = 100
MAX_BATCH = 100

# By path; a path without a fact is one that was not seen.
SeenVersions = Annotated[
    dict[
        Annotated[str, StringConstraints(pattern=FACT_PATH)], Annotated[int, Field(ge=1, le=MAX_SAFE_INTEGER)]
    ],
    Field(max_length=MAX_SEEN, json_schema_extra={"additionalProperties": False}),
]

# A window or a confidence stays the number that was sent: 30 never becomes 30.0.
Window = Annotated[int, Field(gt=0, le=MAX_WINDOW_S)] | Annotated[float, Field(gt=0, le=MAX_WINDOW_S)]
Confidence = Annotated[int, Field(ge=0, le=1)] | Annotated[float, Field(ge=0, le=1)]


class ExecutionConstraints(TypedDict):
    """The agent's own bounds. The window is in seconds; kinds define the other members."""

    __pydantic_config__ = ConfigDict(strict=True, extra="allow")  # type: ignore[misc]

    validity_window_sec: Window


class ProposalEnvelope(Body):
    """A proposal as it arrives. `agent_id` and `dfid`, where given, must agree with the call."""

    policy_kind: Annotated[str, StringConstraints(min_length=1, max_length=128)]
    params: dict[str, JsonValue]
    execution_constraints: ExecutionConstraints
    policy_version: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None
    context_ref: Annotated[str, StringConstraints(min_length=1, max_length=128)] | None = None
    confidence: Confidence | None = None
    explain: Annotated[str, StringConstraints(max_length=20_000)] | None = None
    expected_effects: dict[str, JsonValue] | tuple[JsonValue, ...] | None = None
    human_review_required: bool | None = None
    agent_id: Annotated[str, StringConstraints(max_length=128)] | None = None
    dfid: Annotated[str, StringConstraints(max_length=64)] | None = None
    decision_id: Dfid | None = None
    # By the `proposal_key` of the manifest, where it has one (`runtime.contracts.signed_proposal`).
    signature: Signature | None = None


class ProposalCall(ProposalEnvelope):
    """A proposal with all that it stands on, in one call: `POST /proposals`.

    With `dfid` it is a further try in a flow of the agent; without, it opens one, for which alone `trigger`,
    `parent_dfid` and `delegated_user_id` count. It stands on `context_ref`, a context of that flow, or
    else on the one that the call compiles (`context: "current"`): only then counts what the agent has
    `seen`, facts by their version.
    """

    trigger: Trigger | dict[str, JsonValue] | None = None
    parent_dfid: Dfid | None = None
    context: Literal["current"] | None = None
    seen: SeenVersions | None = None
    delegated_user_id: UserClaim | None = None


class ProposalBatch(Body):
    """Independent proposals, each as for `POST /proposals`; one of another form has its own answer."""

    proposals: Annotated[tuple[dict[str, JsonValue], ...], Field(min_length=1, max_length=MAX_BATCH)]
