"""What has a digest: proposals, verdicts, rules, contexts, evidence, manifests and policy kinds."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.urls import NoReverseMatch, reverse

from escalations import digest_lookups as evidence
from runtime.contexts.queries import snapshots
from runtime.flows.queries import explored_flows
from runtime.registry.queries import digest_lookups as registry

SHOWN: Final = 20
_DIGITS: Final = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class Named:
    """One thing with its whole digest; `dfid` is None for what belongs to no flow."""

    what: str
    digest: str
    url: str
    name: str = ""
    dfid: UUID | None = None


def text_range(prefix: str) -> tuple[str, str]:
    """The least and the greatest digest that begin with these hexadecimal digits."""
    return prefix.ljust(_DIGITS, "0"), prefix.ljust(_DIGITS, "f")


def find(*, tenant: str, prefix: str) -> Iterator[Named]:
    """What has a digest that begins so, at most `SHOWN` of each sort."""
    low, high = text_range(prefix)
    flows = (
        ("Proposal", explored_flows.list_proposals_of),
        ("Input of a verdict", explored_flows.list_inputs_of),
        ("Rules of a verdict", explored_flows.list_rules_of),
    )
    for what, search in flows:
        for digest, dfid in search(tenant=tenant, low=low, high=high, size=SHOWN):
            yield Named(what=what, digest=digest, url=reverse("flow", args=[dfid]), name=str(dfid), dfid=dfid)
    for ref, dfid in snapshots.list_flows_of(tenant=tenant, low=low, high=high, size=SHOWN):
        url = reverse("flow-context", args=[dfid, ref])
        yield Named(what="Context", digest=ref, url=url, name=f"of flow {dfid}", dfid=dfid)
    for digest, escalation, revision, dfid in evidence.list_evidence(
        tenant=tenant, low=low, high=high, size=SHOWN
    ):
        url = reverse("escalation", args=[escalation])
        yield Named(
            what=f"Evidence, revision {revision}", digest=digest, url=url, name=str(escalation), dfid=dfid
        )
    for digest, agent_id, version in registry.list_manifests(tenant=tenant, low=low, high=high, size=SHOWN):
        url = _url("manifest", agent_id, version)
        yield Named(what="Manifest", digest=digest, url=url, name=f"{agent_id} {version}")
    for digest, kind, version in registry.list_kinds(tenant=tenant, low=low, high=high, size=SHOWN):
        yield Named(what="Policy kind", digest=digest, url=_url("kind", kind), name=f"{kind} {version}")


def _url(page: str, *args: str) -> str:
    """The address of a page; empty where a row holds a name that cannot be one."""
    try:
        return reverse(page, args=args)
    except NoReverseMatch:
        return ""
