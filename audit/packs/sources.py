"""The bytes behind the digests of a flow's entries, published to the apps that own the rows.

The ledger knows digests and nothing of the rows of other apps: each app of `settings.DIR_PACK_OBJECTS` gives
the bytes that it stores for a flow, and says of those that it cannot give why not.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard
from uuid import UUID

from django.conf import settings
from django.utils.module_loading import import_string

from audit import canonical, cells, erasures, queries
from audit.events import Kind
from audit.models import Payload
from audit.verification.verify import UNREADABLE

SETTING = "DIR_PACK_OBJECTS"
DIFFERENT = "the stored bytes do not match the ledger"
GONE = "no longer stored"
ERASED = "erased: these bytes repeat words that were erased"
EMPTIED = "emptied, and no entry says that it was erased"
NOT_READABLE = "the stored rows cannot be read"
# The fields of a payload that name bytes by their digest.
NAMED: Mapping[str, tuple[str, ...]] = {
    Kind.CONTEXT_COMPILED: ("context_ref",),
    Kind.PROPOSAL_SUBMITTED: ("proposal_digest",),
    Kind.VERDICT_GIVEN: ("input_digest", "verdict_digest", "policy_bundle_hash"),
    Kind.ESCALATION_OPENED: ("evidence_hash",),
    Kind.ESCALATION_REVISED: ("evidence_hash",),
    Kind.ESCALATION_DECIDED: ("statement_digest",),
    Kind.ESCALATION_FIRST_DECIDED: ("statement_digest",),
    Kind.EFFECT_STATED: ("statement_digest",),
    Kind.INFORMATION_REQUESTED: ("statement_digest",),
    Kind.INTENT_CREATED: ("request_digest",),
    Kind.OUTCOME_RECORDED: ("outcome_digest",),
    Kind.RULES_EVALUATED: ("ruleset_digest", "input_digest", "output_digest"),
    Kind.DECISION_RECOMMENDED: ("input_digest", "package_digest"),
    Kind.TASK_OPENED: ("task_hash",),
    Kind.TASK_ANSWERED: ("statement_digest",),
}
# What names rules: the words of admins, which many flows share.
RULES = frozenset({"policy_bundle_hash", "ruleset_digest"})
_COMMITMENT = "_commitment"
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Objects:
    """Bytes by their digest, and why there are none of others."""

    bodies: Mapping[str, bytes] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)


Source = Callable[[str, UUID], Objects]


@dataclass(slots=True)
class Gathering:
    """Objects while they are gathered, cell by cell."""

    bodies: dict[str, bytes] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    def take(self, digest: object, cells_found: Collection[object]) -> None:
        """Take the bytes of a digest from the cells that should hold them; without a cell they are gone."""
        if not isinstance(digest, str) or digest in self.bodies:
            return
        for cell in cells_found:
            held = cells.bytes_of(cell)
            if held is not None and canonical.digest(held) == digest:
                self.bodies[digest] = held
                self.absent.pop(digest, None)
                return
        is_empty = bool(cells_found) and not any(cells_found)
        self.absent[digest] = EMPTIED if is_empty else DIFFERENT if cells_found else GONE

    def withhold(self, digest: object, why: str) -> None:
        """Give no bytes of a digest, whatever is stored."""
        if isinstance(digest, str):
            self.bodies.pop(digest, None)
            self.absent[digest] = why

    def objects(self) -> Objects:
        """What was gathered."""
        return Objects(bodies=self.bodies, absent=self.absent)


def collect(*, tenant: str, dfid: UUID, wanted: Collection[str]) -> Objects:
    """What all apps give of the `wanted` digests; what one of them withholds is given by none."""
    bodies: dict[str, bytes] = {}
    absent: dict[str, str] = {}
    missing = GONE
    for path in getattr(settings, SETTING, ()):
        source: Source = import_string(path)
        try:
            found = source(tenant, dfid)
        except UNREADABLE:
            missing = NOT_READABLE
            continue
        bodies |= found.bodies
        absent |= found.absent
    # Each is hashed here, so that no mistake of an app puts other bytes under a digest.
    whole = {
        digest: bodies[digest]
        for digest in wanted
        if digest in bodies and digest not in absent and canonical.digest(bodies[digest]) == digest
    }
    without = {digest: absent.get(digest, missing) for digest in wanted if digest not in whole}
    if without and erasures.find(tenant=tenant, dfid=dfid) is not None:
        # What is made of several cells is not empty when those are. What fills them again is a row's finding.
        gone = _list_erasable(tenant, dfid).intersection(without)
        without |= {digest: ERASED for digest in gone if without[digest] in (EMPTIED, DIFFERENT)}
    return Objects(bodies=whole, absent=without)


def _list_erasable(tenant: str, dfid: UUID) -> set[str]:
    """The digests of a flow's entries whose bytes an erasure takes: all but those of rules."""
    told = queries.list_payloads(tenant=tenant, stream=str(dfid), kinds=[Kind(kind) for kind in NAMED])
    fields = ((payload, name) for kind, payload in told for name in NAMED[kind] if name not in RULES)
    return {value for payload, name in fields if is_digest(value := payload.get(name))}


def list_named(kind: str, payload: Mapping[str, Any]) -> Iterator[str]:
    """The digests in an entry's payload whose bytes belong in a pack."""
    for name in NAMED.get(kind, ()):
        if is_digest(value := payload.get(name)):
            yield value


def list_commitments(payload: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The fields of a payload that hide words behind a commitment, each with it."""
    for name, value in payload.items():
        if name.endswith(_COMMITMENT) and is_digest(value):
            yield name, value


def is_digest(value: object) -> TypeGuard[str]:
    """Whether it is a digest as entries write it."""
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def has_erased(*, tenant: str, payloads: Collection[Mapping[str, Any]]) -> bool:
    """Whether words that these payloads of entries hide were erased: then no copy of them may leave."""
    named = {value for payload in payloads for _, value in list_commitments(payload)}
    rows = Payload.objects.filter(tenant=tenant, commitment__in=named, content__isnull=True)
    return bool(named) and rows.exists()
