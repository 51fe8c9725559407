"""Targets as packs configure them: where steps go. Each call is compared with the last entry about it."""

from datetime import datetime

from audit import canonical, events
from runtime.contracts.pack import PackTarget, TargetProtocol
from runtime.registry.models import Target
from runtime.registry.queries import recorded_targets, target_endpoints


def store(*, tenant: str, name: str, given: PackTarget, at: datetime) -> list[events.Event]:
    """Store a target in the caller's transaction; the entry, or none where it is so and recorded so."""
    values: dict[str, str | bytes | bool] = {
        "base_url": given.base_url,
        "secret_env": given.secret_env or "",
        "refuses": canonical.encode(given.refuses),
        "honours_keys": given.honours_keys,
        "health": given.health or "",
        "deep_link": given.deep_link or "",
        "is_mcp": given.protocol is TargetProtocol.MCP,
    }
    row = target_endpoints.get_target(tenant=tenant, name=name)
    held = {field: getattr(row, field, None) for field in values}
    # A BinaryField is a memoryview on PostgreSQL.
    plain = {field: bytes(cell) if isinstance(cell, memoryview) else cell for field, cell in held.items()}
    if row is None:
        Target.objects.create(tenant=tenant, name=name, configured_at=at, **values)
    elif plain != values or recorded_targets.compare_configured(row) is not None:
        Target.objects.filter(pk=row.pk).update(configured_at=at, **values)
    else:
        return []
    return [
        events.TargetConfigured(
            name=name,
            base_url=given.base_url,
            signed=given.secret_env is not None,
            refuses=given.refuses,
            honours_keys=given.honours_keys,
            health=given.health,
            secret_env=given.secret_env,
            deep_link=given.deep_link,
            protocol=given.protocol if given.protocol is TargetProtocol.MCP else None,
        )
    ]
