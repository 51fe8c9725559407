"""What the payload of an entry names, as links to the pages about it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.urls import NoReverseMatch, reverse

from audit import actors
from audit.events import Kind
from runtime.core.views import query_params

# The page of each field that holds an id, and what the page is about.
_PAGES: Final[Mapping[str, tuple[str, str]]] = {
    "escalation_id": ("escalation", "Escalation"),
    "review_id": ("review", "Review"),
    "child_dfid": ("flow", "Child flow"),
    "parent_dfid": ("flow", "Parent flow"),
    "dfid": ("flow", "Flow"),
    "record_id": ("record", "Decision record"),
    "agent_id": ("agent", "Agent"),
    "policy_kind": ("kind", "Policy kind"),
}
# What a flow's page shows of its own.
_IN_FLOW: Final[Mapping[str, str]] = {
    "proposal_id": "Proposal, on the page of the flow",
    "intent_id": "Intent, on the page of the flow",
}
_MANIFESTS: Final = (Kind.MANIFEST_REGISTERED, Kind.MANIFEST_ACTIVATED, Kind.MANIFEST_DISCARDED)
_KINDS: Final = (Kind.KIND_REGISTERED, Kind.KIND_ACTIVATED, Kind.KIND_DISCARDED)


@dataclass(frozen=True, slots=True)
class EntryLink:
    """A page about something that an entry names: its words, the name, the address."""

    word: str
    name: str
    url: str


def of_payload(kind: str, payload: Mapping[str, Any], stream: str) -> list[EntryLink]:
    """The links of a payload, in the order of its fields."""
    return list(_links(kind, payload, query_params.uuid(stream)))


def _links(kind: str, payload: Mapping[str, Any], dfid: Any) -> Iterator[EntryLink]:
    for field, value in payload.items():
        if not isinstance(value, str) or not value:
            continue
        found = None
        if field in _PAGES:
            page, word = _PAGES[field]
            found = _page(page, word, value)
        elif field in _IN_FLOW and dfid:
            found = EntryLink(_IN_FLOW[field], value, reverse("flow", args=[dfid]))
        elif field == "context_ref" and dfid:
            found = _page("flow-context", "Context", value, dfid)
        elif field == "version" and kind in _MANIFESTS:
            found = _page("manifest", "Manifest", value, payload.get("agent_id"))
        elif field == "kind" and kind in _KINDS:
            found = _page("kind", "Policy kind", value)
        if found is not None:
            yield found


def _page(page: str, word: str, value: str, *before: Any) -> EntryLink | None:
    """The link; None where the value cannot be a part of that address."""
    try:
        return EntryLink(word, value, reverse(page, args=[*before, value]))
    except NoReverseMatch:
        return None


def of_stream(stream: str) -> str:
    """The address of what a stream is about; empty where nothing has a page of its own."""
    if dfid := query_params.uuid(stream):
        return reverse("flow", args=[dfid])
    kind, _, name = stream.partition(":")
    match f"{kind}:":
        case actors.AGENT if name:
            return reverse("agent", args=[name])
        case actors.USER if query_params.is_whole(name):
            return reverse("person", args=[int(name)])
        case _:
            return ""
