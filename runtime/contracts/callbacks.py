"""What a target reports to the `callback_url` of a call that it has taken on with 202."""

from typing import Annotated, Any, Literal

from pydantic import Field, RootModel

from runtime.contracts.document import Contract, Words

# Each has an entry in the ledger.
MOST_PROGRESS = 1_000


class Progress(Contract):
    """It is still at work. `number` rises; one that is not above the last is known already."""

    status: Literal["progress"]
    number: Annotated[int, Field(ge=1, le=MOST_PROGRESS)]
    percent: Annotated[int, Field(ge=0, le=100)] | None = None
    note: Words | None = None


class Succeeded(Contract):
    """It is done; `receipt` is the receipt of the step."""

    status: Literal["succeeded"]
    receipt: dict[str, Any]


class Failed(Contract):
    """It was not done and will not be: nothing has taken effect. Like a 4xx answer to the call."""

    status: Literal["failed"]
    note: Words | None = None


class CallbackReport(RootModel[Annotated[Progress | Succeeded | Failed, Field(discriminator="status")]]):
    """One report."""
