"""Where a target is and what it declares: its row, at the address that this deployment gives it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from django.conf import settings
from django.db.models import QuerySet

from audit import canonical, statements
from runtime.registry.models import Target


@dataclass(frozen=True, kw_only=True)
class TargetEndpoint:
    """A target as a call needs it; see `runtime.contracts.pack.Target`. Empty texts: it has none."""

    base_url: str
    secret_env: str = ""
    refuses: frozenset[int] = frozenset()
    honours_keys: bool = False
    health: str = ""
    deep_link: str = ""


# How the address of an MCP server begins that is a command; its name follows.
COMMAND: Final = "stdio:"
NOWHERE = TargetEndpoint(base_url="")


def get_target(*, tenant: str, name: str) -> Target | None:
    """The row of a target; None where there is none of this name. Simulated steps name none."""
    return _TARGET.first(tenant=tenant, name=name) if name else None


def _target(*, tenant: str, name: str) -> QuerySet[Target]:
    return Target.objects.of(tenant).filter(name=name)


_TARGET: Final = statements.Read(_target)


def get_place(*, tenant: str, name: str) -> TargetEndpoint | None:
    """The place of a target; None where there is none of this name."""
    if (command := get_command(name)) is not None:
        return command
    row = get_target(tenant=tenant, name=name)
    return None if row is None else place_of(row)


def get_command(name: str) -> TargetEndpoint | None:
    """The place of an MCP server that is a command of this installation; no pack can name it otherwise."""
    return TargetEndpoint(base_url=f"{COMMAND}{name}") if name in settings.DIR_TOOL_COMMANDS else None


def list_servers(*, tenant: str) -> Mapping[str, TargetEndpoint]:
    """The MCP servers by name: targets that a pack declares as such, and commands of this installation."""
    rows = Target.objects.of(tenant).filter(is_mcp=True)
    commands = {name: get_command(name) for name in settings.DIR_TOOL_COMMANDS}
    return {
        **{row.name: place_of(row) for row in rows},
        **{name: place for name, place in commands.items() if place is not None},
    }


def place_of(row: Target) -> TargetEndpoint:
    """The place that a target's row and the environment give together."""
    return TargetEndpoint(
        # A deployment may move a target without touching the pack.
        base_url=settings.DIR_TARGET_URLS.get(row.name, row.base_url),
        secret_env=row.secret_env,
        refuses=frozenset(refuses_of(row)),
        honours_keys=row.honours_keys,
        health=row.health,
        deep_link=row.deep_link,
    )


def link_to(place: TargetEndpoint, *, key: str) -> str:
    """The page of a target's own console about one call, the key percent-encoded; empty where it has none."""
    return place.deep_link.replace("{key}", quote(key, safe=""))


def refuses_of(row: Target) -> tuple[int, ...]:
    """The statuses by which a target reports that it has not done the call, in order."""
    return tuple(canonical.decode(bytes(row.refuses)))


def list_honouring(*, tenant: str, using: str = "default") -> Mapping[str, bool]:
    """Every target, and whether it honours keys; no MCP server does."""
    rows = Target.objects.using(using).filter(tenant=tenant)
    return {
        **dict(rows.values_list("name", "honours_keys")),
        **dict.fromkeys(settings.DIR_TOOL_COMMANDS, False),
    }
