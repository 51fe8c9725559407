"""What agents offer each other: the small types of a capability record (IAE 3.4.3)."""

from typing import Annotated

from pydantic import StringConstraints as Text

from runtime.contracts.message import Amount, Open

CapabilityName = Annotated[str, Text(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$")]


class Sla(Open):
    """How long a provider says that it takes: median and 95th percentile, in milliseconds."""

    p50_ms: Amount | None = None
    p95_ms: Amount | None = None


class CostModel(Open):
    """What a provider says that one call costs, in cost units."""

    per_call: Amount | None = None
