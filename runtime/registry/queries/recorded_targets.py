"""Targets compared with the last ledger entry about each."""

from collections.abc import Iterator, Mapping
from typing import Any

from audit import canonical, cells, queries
from audit.events import Kind
from runtime.contracts.pack import TargetProtocol
from runtime.core import mismatches
from runtime.registry.models import Target
from runtime.registry.queries import target_endpoints
from runtime.registry.queries.target_endpoints import TargetEndpoint


def configured_columns(said: Mapping[str, Any], row: Target) -> Iterator[tuple[str, object, object]]:
    """Each column of a target: its name, what the entry records, and what the row holds."""
    yield "base_url", said["base_url"], row.base_url
    yield "signed", said["signed"], bool(row.secret_env)
    if said.get("secret_env") is not None:
        yield "secret_env", said["secret_env"], row.secret_env
    # The cell of a row that was written by hand may be no bytes.
    refuses = cells.bytes_of(row.refuses)
    yield "refuses", canonical.encode(said.get("refuses", ())), row.refuses if refuses is None else refuses
    yield "honours_keys", said.get("honours_keys", False), bool(row.honours_keys)
    yield "health", said.get("health") or "", row.health
    yield "deep_link", said.get("deep_link") or "", row.deep_link
    yield "is_mcp", said.get("protocol") == TargetProtocol.MCP, bool(row.is_mcp)


def compare_target(row: Target, said: Mapping[str, Any] | None) -> mismatches.Mismatch | None:
    """Whether a target's row matches its last entry; `said` is None where there is no entry."""
    if said is None:
        return mismatches.Mismatch(
            row="target",
            row_id=row.name,
            recorded=mismatches.NOT_RECORDED,
            found=canonical.digest(row.base_url.encode()),
        )
    for name, recorded, stored in configured_columns(said, row):
        if recorded != stored:
            return mismatches.of_values(f"target.{name}", row.name, recorded, stored)
    return None


def list_places(*, tenant: str) -> Mapping[str, TargetEndpoint]:
    """The targets by name, but those whose row is not what was configured last: these are not called."""
    configured = list_configured(tenant=tenant)
    return {
        row.name: target_endpoints.place_of(row)
        for row in Target.objects.of(tenant)
        if compare_target(row, configured.get(row.name)) is None
    }


def compare_configured(row: Target) -> mismatches.Mismatch | None:
    """Whether a target is what was configured last, in one query; of a claim see `of_flow`."""
    return compare_target(row, list_configured(tenant=row.tenant).get(row.name))


def list_configured(*, tenant: str) -> Mapping[str, Mapping[str, Any]]:
    """By name what the last entry about each target records."""
    said = queries.list_payloads_of_kind(tenant=tenant, kind=Kind.TARGET_CONFIGURED)
    return {payload["name"]: payload for _, payload in said}
