"""An entry as an event of the Open Cybersecurity Schema Framework, for a SIEM."""

from collections.abc import Mapping
from typing import Any, Final

from audit import actors, canonical, chain
from runtime.contracts.incident import IncidentState
from runtime.contracts.incident import Severity as IncidentSeverity
from runtime.contracts.receiver import SealedEntry
from runtime.outward.services import ocsf_classes
from runtime.outward.services.ocsf_classes import Mapped, OcsfClass, Severity

MEDIA_TYPE: Final = "application/x-ndjson"
PRODUCT: Final = "DIR Console"
_CLOSE: Final = 3
_SEVERITIES: Final[Mapping[str, Severity]] = {
    IncidentSeverity.SEV1: Severity.CRITICAL,
    IncidentSeverity.SEV2: Severity.HIGH,
    IncidentSeverity.SEV3: Severity.MEDIUM,
    IncidentSeverity.SEV4: Severity.LOW,
}
# Where a payload names what the entry is about, the most telling first.
_NAMES: Final = (
    "receiver_id",
    "route_id",
    "incident_id",
    "review_id",
    "key_id",
    "guard_id",
    "policy_kind",
    "agent_id",
    "target",
    "pack",
    "name",
    "holder",
)


def encode(entry: SealedEntry) -> bytes:
    """The bytes of one event, without a line end."""
    return canonical.encode(event(entry))


def event(entry: SealedEntry) -> dict[str, Any]:
    """One event. What has no attribute in the schema is in `unmapped`, the payload whole."""
    mapped, body = ocsf_classes.of_kind(entry.kind), entry.body
    return {
        "category_uid": mapped.of // 1000,
        "class_uid": mapped.of.value,
        "class_name": mapped.of.title,
        "activity_id": _activity(mapped, entry),
        "activity_name": _activity_name(mapped, entry),
        "type_uid": mapped.of * 100 + _activity(mapped, entry),
        "time": int(entry.at.timestamp() * 1000),
        "severity_id": severity(entry).value,
        "status_id": mapped.status.value,
        "metadata": {
            "version": ocsf_classes.VERSION,
            "product": {"name": PRODUCT, "vendor_name": PRODUCT, "uid": entry.origin},
            "uid": entry.entry_hash,
            "sequence": entry.leaf,
            "event_code": entry.kind,
            "log_name": entry.stream,
            "original_time": chain.time_text(entry.at),
            "tenant_uid": str(body["tenant"]),
        },
        "actor": {"user": _user(str(body["actor"])), "app_name": PRODUCT},
        **_of_class(mapped, entry),
        "unmapped": {"prev_hash": entry.prev_hash, "seq": body["seq"], "payload": dict(entry.payload)},
    }


def severity(entry: SealedEntry) -> Severity:
    """How bad it is: of an incident as its entry says, else as its kind is."""
    if entry.kind.startswith("incident:") and (said := entry.payload.get("severity")) in _SEVERITIES:
        return _SEVERITIES[str(said)]
    return ocsf_classes.of_kind(entry.kind).severity


def _activity(mapped: Mapped, entry: SealedEntry) -> int:
    is_closed = entry.kind == "incident:moved" and entry.payload.get("to_state") == IncidentState.CLOSED
    return _CLOSE if is_closed else mapped.activity


def _activity_name(mapped: Mapped, entry: SealedEntry) -> str:
    return ocsf_classes.activity_name(Mapped(mapped.of, _activity(mapped, entry)), entry.kind)


def _of_class(mapped: Mapped, entry: SealedEntry) -> dict[str, Any]:
    """What the class of the event requires besides."""
    match mapped.of:
        case OcsfClass.DETECTION_FINDING:
            uid = next((str(entry.payload[name]) for name in _NAMES if entry.payload.get(name)), "")
            return {"finding_info": {"uid": uid or entry.entry_hash, "title": entry.kind}}
        case OcsfClass.ACCOUNT_CHANGE:
            return {"user": _subject(entry)}
        case OcsfClass.AUTHENTICATION:
            return {"user": _subject(entry), "service": {"name": PRODUCT, "uid": entry.origin}}
        case OcsfClass.ENTITY_MANAGEMENT:
            uid = next((str(entry.payload[name]) for name in _NAMES if entry.payload.get(name)), "")
            return {"entity": {"uid": uid or entry.stream, "type": entry.kind.partition(":")[0]}}
        case OcsfClass.API_ACTIVITY:
            # The ledger records who acted, and never from which address.
            return {
                "api": {"operation": entry.kind, "service": {"name": PRODUCT}},
                "src_endpoint": {"name": PRODUCT, "uid": entry.origin},
            }


def _subject(entry: SealedEntry) -> dict[str, str]:
    """Whom an entry about a sign-in or an account is about. Many names that failed are in the payload."""
    if (pk := entry.payload.get("user_id")) is not None:
        return _user(actors.user(pk))
    if agent_id := entry.payload.get("agent_id"):
        return _user(actors.agent(str(agent_id)))
    return _user(str(entry.body["actor"]))


def _user(actor: str) -> dict[str, str]:
    return {"uid": actor, "name": actor}
