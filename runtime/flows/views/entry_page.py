"""One ledger entry under an address of its own: what it says, and that it is what was written."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from audit import canonical, presenters
from audit.access.permissions import signed_in, tenant_of
from audit.packs import entry_rows
from audit.packs.entry_rows import Held
from audit.verification import entry_check
from audit.verification.entry_check import Check, CheckedEntry, Part
from audit.verification.verify import snapshot
from runtime.core.views import labels
from runtime.core.views.labels import Badge
from runtime.flows.views import entry_links, timeline
from runtime.kernel import effects
from runtime.registry.queries import people

PARTS: Final[Mapping[Part, str]] = {
    Part.HASH: "Hash of this entry",
    Part.PREVIOUS: "Hash of the entry before",
    Part.COLUMNS: "Columns and bytes",
    Part.TREE: "Place in the tree",
    Part.CHECKPOINT: "Signature of the checkpoint",
}
RESULTS: Final[Mapping[bool | None, Badge]] = {
    True: Badge("ok", "check", "Matches"),
    False: Badge("danger", "high", "Does not match"),
    None: Badge("warn", "clock", "Not known yet"),
}
HELD: Final[Mapping[Held, Badge]] = {
    Held.STORED: Badge("ok", "check", "Stored, matches"),
    Held.ERASED: Badge("idle", "cross", "Erased"),
    Held.ABSENT: Badge("warn", "ask", "Not here"),
    Held.DIFFERENT: Badge("danger", "high", "Does not match"),
    Held.ELSEWHERE: Badge(
        "idle", "shield", "By verify_ledger", "Compared with its row by manage.py verify_ledger"
    ),
}
_CONFLICT: Final = 409
_NUL: Final = "\x00"


@require_safe
@signed_in
def detail(request: HttpRequest, stream: str, seq: int) -> HttpResponse:
    """Show the entry with its checks, made now; where one is wrong, nothing of what the bytes say."""
    tenant = tenant_of(request.user)
    if _NUL in stream or not 0 < seq <= canonical.MAX_SAFE_INTEGER:
        raise Http404
    with snapshot():
        found = entry_check.read(tenant=tenant, stream=stream, seq=seq)
        if found is None:
            raise Http404
        context = _shown(found) | (_said(tenant, found) if found.is_whole else {})
    return render(request, "audit/entry.html", context, status=200 if found.is_whole else _CONFLICT)


def _shown(found: CheckedEntry) -> dict[str, Any]:
    sealed = found.sealed
    return {
        "entry": found,
        "stream": effects.visible(found.stream),
        "stream_url": entry_links.of_stream(found.stream),
        "checks": [_check(check) for check in found.checks],
        "whole": RESULTS[True] if found.is_whole else RESULTS[False],
        "previous": found.seq - 1,
        "following": found.seq + 1 if found.has_next else 0,
        "root": "" if sealed is None else sealed.newest.checkpoint.root.hex(),
        "key_id": "" if sealed is None or sealed.signer is None else sealed.signer.key_id,
        "proof": [] if sealed is None else [each.hex() for each in sealed.proof.hashes],
    }


def _check(check: Check) -> dict[str, Any]:
    return {"what": PARTS[check.part], "badge": RESULTS[check.is_right], "check": check}


def _said(tenant: str, found: CheckedEntry) -> dict[str, Any]:
    """What a whole entry says."""
    said = found.said or {}
    kind, actor, payload = str(said["kind"]), str(said["actor"]), found.payload
    words = presenters.present(kind)
    named = entry_rows.list_named(tenant=tenant, stream=found.stream, kind=kind, payload=payload)
    return {
        "kind": kind,
        "title": words.title,
        "icon": words.icon,
        "lane": timeline.lane_of(kind, payload),
        "summary": effects.visible(words.sentence(payload)),
        "actor": labels.actor_words(actor, people.names_of([actor])),
        "actor_code": effects.visible(actor),
        "at": datetime.fromisoformat(str(said["at"])),
        "at_code": said["at"],
        "links": entry_links.of_payload(kind, payload, found.stream),
        "rows": [{"row": row, "badge": HELD[row.held]} for row in named],
        "pretty": labels.pretty(said),
        "bytes": labels.visible_lines(found.body.decode()),
    }
