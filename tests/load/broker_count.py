"""Counts a burst at the broker, not in our own tables: each accepted intent has exactly one effect there."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from demo.http_client import Wire

PAGE = 1000


@dataclass(frozen=True)
class Count:
    """Intents without an effect, with more than one, and effects that no accepted intent asked for."""

    effects: int
    missing: tuple[str, ...]
    doubled: tuple[str, ...]
    foreign: tuple[str, ...]

    def exact(self) -> bool:
        """Whether each intent had its one effect and nothing else happened."""
        return not (self.missing or self.doubled or self.foreign)


def effects(*, broker_url: str) -> list[dict[str, Any]]:
    """Every effect stored at the broker, oldest first."""
    wire, rows = Wire(base_url=broker_url), list[dict[str, Any]]()
    while True:
        after = rows[-1]["id"] if rows else 0
        page = wire.fetch("GET", f"/effects?after={after}&limit={PAGE}").body["effects"]
        rows += page
        if len(page) < PAGE:
            wire.close()
            return rows


def compare(*, intents: Iterable[str], rows: Iterable[Mapping[str, Any]], dfids: Iterable[str]) -> Count:
    """Intents that must have had their effect against the effects; those of other flows are left out."""
    ours = set(dfids)
    here = [row for row in rows if row["dfid"] in ours]
    wanted = set(intents)
    done = Counter(str(row["intent_id"]) for row in here)
    return Count(
        effects=len(here),
        missing=tuple(sorted(wanted - done.keys())),
        doubled=tuple(sorted(intent for intent, times in done.items() if times > 1)),
        foreign=tuple(sorted(done.keys() - wanted)),
    )
