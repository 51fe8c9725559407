"""Which facts a caller may read: a feed those under its prefix, an agent what it needs to know."""

from dataclasses import dataclass

from django.db.models import Q
from django.db.models.functions import Left
from django.db.models.lookups import Exact

from audit import canonical
from runtime.registry.models import Agent, Key
from runtime.registry.queries import granted_kinds
from runtime.state.queries import visible_facts


@dataclass(frozen=True, kw_only=True)
class Sight:
    """The facts that somebody may read.

    `spaces` are the beginnings of their paths (the empty one: all facts), `paths` those named whole. `stream`
    is the caller's own: a version of the world that it wrote is its own to see. `depends_on` changes with
    what the caller may read, for entity tags; empty for a key, whose prefix never changes.
    """

    tenant: str
    spaces: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    stream: str = ""
    depends_on: str = ""

    def covers(self, path: str) -> bool:
        """Whether this fact may be read."""
        return path in self.paths or path.startswith(self.spaces)

    def covers_some(self, prefix: str) -> bool:
        """Whether a fact whose path begins so could be read."""
        return prefix.startswith(self.spaces) or any(
            name.startswith(prefix) for name in (*self.spaces, *self.paths)
        )

    def where(self, prefix: str = "") -> Q:
        """The condition on a row's `path`."""
        wanted = Q(path__in=self.paths)
        for space in self.spaces:
            wanted |= _begins(space)
        return wanted & _begins(prefix) if prefix else wanted


def _begins(prefix: str) -> Q:
    """Whose path begins so. The `LIKE` of SQLite takes capitals and small letters for the same."""
    begins = Q(path__startswith=prefix)
    return begins & Q(Exact(Left("path", len(prefix)), prefix)) if prefix else begins


def of_all(tenant: str) -> Sight:
    """All facts: auditors, and people at their pages."""
    return Sight(tenant=tenant, spaces=("",))


def of_key(key: Key) -> Sight:
    """What the key of a feed covers; an auditor's covers all."""
    return Sight(tenant=key.tenant, spaces=(key.fact_prefix if key.feed else "",), stream=key.holder)


def of_agent(agent: Agent) -> Sight:
    """What an agent's contexts show: what its manifest subscribes to, or else its kinds depend on."""
    kinds = granted_kinds.list_granted(agent)
    selected = visible_facts.selectors(agent=agent, kinds=kinds)
    return Sight(
        tenant=agent.tenant,
        spaces=tuple(name for name in selected if name.endswith(".")),
        paths=tuple(name for name in selected if not name.endswith(".")),
        depends_on=canonical.digest(canonical.encode(sorted(selected)))[:16],
    )
