"""What the last connectivity test of a target found."""

from datetime import datetime

from audit import actors, queries
from audit.events import Kind


def was_good_since(*, tenant: str, name: str, since: datetime) -> bool:
    """Whether the newest test of a target, by whoever made it, was good and is not older than `since`."""
    checks = queries.list_dated(tenant=tenant, stream=actors.target(name), kinds={Kind.TARGET_CHECKED})
    newest = max(checks, key=lambda check: check[1], default=None)
    return newest is not None and newest[1] >= since and newest[2].get("is_good") is True
