"""Which class of OCSF 1.8 each kind of entry is, and which activity of that class.

What has no class of its own there is API Activity, with the verb of the kind as the name of the activity.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from audit.events import Kind

VERSION: Final = "1.8.0"
OTHER: Final = 99


class OcsfClass(IntEnum):
    """A class by its `class_uid`, of which the thousands are the category."""

    DETECTION_FINDING = 2004
    ACCOUNT_CHANGE = 3001
    AUTHENTICATION = 3002
    ENTITY_MANAGEMENT = 3004
    API_ACTIVITY = 6003

    @property
    def title(self) -> str:
        """The name of the class in the schema."""
        return _TITLES[self]


_TITLES: Final[Mapping[OcsfClass, str]] = MappingProxyType(
    {
        OcsfClass.DETECTION_FINDING: "Detection Finding",
        OcsfClass.ACCOUNT_CHANGE: "Account Change",
        OcsfClass.AUTHENTICATION: "Authentication",
        OcsfClass.ENTITY_MANAGEMENT: "Entity Management",
        OcsfClass.API_ACTIVITY: "API Activity",
    }
)
ACTIVITIES: Final[Mapping[OcsfClass, Mapping[int, str]]] = MappingProxyType(
    {
        OcsfClass.DETECTION_FINDING: {1: "Create", 2: "Update", 3: "Close"},
        OcsfClass.ACCOUNT_CHANGE: {1: "Create", 2: "Enable", 3: "Password Change", 5: "Disable"},
        OcsfClass.AUTHENTICATION: {1: "Logon", 2: "Logoff"},
        OcsfClass.ENTITY_MANAGEMENT: {
            1: "Create",
            3: "Update",
            4: "Delete",
            9: "Disable",
            10: "Activate",
            11: "Deactivate",
            12: "Suspend",
            13: "Resume",
        },
        OcsfClass.API_ACTIVITY: {1: "Create", 2: "Read", 3: "Update", 4: "Delete"},
    }
)


class Severity(IntEnum):
    """`severity_id` of the schema."""

    INFORMATIONAL = 1
    LOW = 2
    MEDIUM = 3
    HIGH = 4
    CRITICAL = 5


class Status(IntEnum):
    """`status_id` of the schema. UNKNOWN where only the payload tells."""

    UNKNOWN = 0
    SUCCESS = 1
    FAILURE = 2


@dataclass(frozen=True, slots=True)
class Mapped:
    """What a kind of entry is in OCSF."""

    of: OcsfClass
    activity: int
    severity: Severity = Severity.INFORMATIONAL
    status: Status = Status.SUCCESS

    @property
    def type_uid(self) -> int:
        """The class and the activity in one number, as the schema makes it."""
        return self.of * 100 + self.activity


_FINDING, _ACCOUNT = OcsfClass.DETECTION_FINDING, OcsfClass.ACCOUNT_CHANGE
_SIGN_IN, _ENTITY, _API = OcsfClass.AUTHENTICATION, OcsfClass.ENTITY_MANAGEMENT, OcsfClass.API_ACTIVITY
_FAILED, _OPEN = Status.FAILURE, Status.UNKNOWN

_NAMED: Final[Mapping[Kind, Mapped]] = MappingProxyType(
    {
        Kind.USER_SIGNED_IN: Mapped(_SIGN_IN, 1),
        Kind.USER_SIGNED_OUT: Mapped(_SIGN_IN, 2),
        Kind.USER_SESSIONS_ENDED: Mapped(_SIGN_IN, 2),
        Kind.SIGNIN_FAILED: Mapped(_SIGN_IN, 1, Severity.LOW, _FAILED),
        Kind.USER_CONFIRMATION_FAILED: Mapped(_SIGN_IN, OTHER, Severity.LOW, _FAILED),
        Kind.SESSION_OPENED: Mapped(_SIGN_IN, 1),
        Kind.USER_ADDED: Mapped(_ACCOUNT, 1),
        Kind.USER_INVITED: Mapped(_ACCOUNT, OTHER),
        Kind.USER_DEACTIVATED: Mapped(_ACCOUNT, 5),
        Kind.USER_REACTIVATED: Mapped(_ACCOUNT, 2),
        Kind.USER_ROLES_CHANGED: Mapped(_ACCOUNT, OTHER, Severity.LOW),
        Kind.USER_PASSWORD_CHANGED: Mapped(_ACCOUNT, 3),
        Kind.INCIDENT_OPENED: Mapped(_FINDING, 1),
        Kind.ROW_MISMATCHED: Mapped(_FINDING, 1, Severity.CRITICAL),
        Kind.EPOCH_RESTORED: Mapped(_FINDING, 1, Severity.HIGH),
        Kind.EPOCH_BEGUN: Mapped(_FINDING, 3),
        Kind.REVIEW_FLAGGED: Mapped(_FINDING, 1, Severity.LOW),
        Kind.REVIEW_REQUESTED: Mapped(_FINDING, 1, Severity.MEDIUM),
        Kind.REVIEW_ROUTED: Mapped(_FINDING, 1, Severity.MEDIUM),
        Kind.REVIEW_CLOSED: Mapped(_FINDING, 3),
        Kind.AGENT_STOPPED: Mapped(_ENTITY, 12, Severity.MEDIUM),
        Kind.SYSTEM_STOPPED: Mapped(_ENTITY, 12, Severity.HIGH),
        Kind.KEY_REVOKED: Mapped(_ENTITY, 9),
        Kind.PAYLOAD_ERASED: Mapped(_API, 4),
        Kind.FLOW_ERASED: Mapped(_API, 4),
        Kind.FACTS_PRUNED: Mapped(_API, 4),
        Kind.PAYLOAD_KEY_DESTROYED: Mapped(_ENTITY, 4),
        Kind.REQUEST_REFUSED: Mapped(_API, OTHER, Severity.LOW, _FAILED),
        Kind.MEMORY_REFUSED: Mapped(_API, OTHER, Severity.LOW, _FAILED),
        Kind.ESCALATION_REFUSED: Mapped(_API, OTHER, Severity.LOW, _FAILED),
        Kind.GUARD_FAILED: Mapped(_API, OTHER, Severity.LOW, _FAILED),
        Kind.ROUTE_FAILED: Mapped(_API, OTHER, Severity.LOW, _FAILED),
        Kind.FACT_NOT_WRITTEN: Mapped(_API, OTHER, Severity.LOW, _FAILED),
        Kind.INVARIANTS_CHECKED: Mapped(_API, OTHER, status=_OPEN),
        Kind.RECEIPT_MISFIT: Mapped(_API, OTHER, Severity.LOW, _OPEN),
        Kind.TASK_REFUSED: Mapped(_API, OTHER, Severity.LOW, _FAILED),
        Kind.TASK_OVERDUE: Mapped(_API, OTHER, Severity.LOW, _FAILED),
        Kind.CALLBACK_OVERDUE: Mapped(_API, OTHER, Severity.LOW, _FAILED),
        Kind.CALLBACK_OPENED: Mapped(_API, OTHER, status=_OPEN),
        Kind.CALLBACK_AWAITED: Mapped(_API, OTHER, status=_OPEN),
        Kind.CALLBACK_PROGRESSED: Mapped(_API, OTHER, status=_OPEN),
        Kind.CALLBACK_REPORTED: Mapped(_API, OTHER, status=_OPEN),
        Kind.INTENT_IN_DOUBT: Mapped(_API, OTHER, Severity.LOW, _OPEN),
        Kind.ATTEMPT_STARTED: Mapped(_API, OTHER, status=_OPEN),
        Kind.ATTEMPT_FINISHED: Mapped(_API, OTHER, status=_OPEN),
        Kind.ATTEMPT_REPORTED_LATE: Mapped(_API, OTHER, status=_OPEN),
        Kind.STATUS_QUERY_STARTED: Mapped(_API, OTHER, status=_OPEN),
        Kind.STATUS_QUERY_FINISHED: Mapped(_API, OTHER, status=_OPEN),
        Kind.VERDICT_GIVEN: Mapped(_API, OTHER, status=_OPEN),
        Kind.CIRCUIT_OPENED: Mapped(_API, OTHER, Severity.MEDIUM),
    }
)
# What is governed, rather than done: everything about one of these is about that entity.
_ENTITIES: Final = frozenset(
    {
        "agent",
        "calibration",
        "group",
        "guard",
        "incident_rule",
        "key",
        "kind",
        "limit",
        "manifest",
        "notification_route",
        "ontology",
        "pack",
        "payload_key",
        "receiver",
        "ruleset",
        "signing_key",
        "system",
        "target",
        "workflow",
    }
)
_ENTITY_VERBS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "registered": 1,
        "added": 1,
        "drafted": 1,
        "issued": 1,
        "begun": 1,
        "loaded": 1,
        "edited": 3,
        "changed": 3,
        "owner_changed": 3,
        "status_changed": 3,
        "configured": 3,
        "switched": 3,
        "moved": 3,
        "deleted": 4,
        "discarded": 4,
        "activated": 10,
        "ended": 11,
        "retired": 11,
        "paused": 12,
        "resumed": 13,
    }
)
_API_VERBS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "opened": 1,
        "submitted": 1,
        "created": 1,
        "emitted": 1,
        "registered": 1,
        "read": 2,
        "moved": 3,
        "written": 3,
        "configured": 3,
        "revised": 3,
        "discarded": 4,
    }
)


def of_kind(kind: str) -> Mapped:
    """What a kind of entry is; one that this version does not know is API Activity."""
    if kind in Kind.__members__.values() and (named := _NAMED.get(Kind(kind))) is not None:
        return named
    noun, _, verb = kind.partition(":")
    if noun in {"incident", "post_mortem"}:
        return Mapped(_FINDING, 2)
    if noun in _ENTITIES:
        return Mapped(_ENTITY, _ENTITY_VERBS.get(verb, OTHER))
    return Mapped(_API, _API_VERBS.get(verb, OTHER))


def activity_name(mapped: Mapped, kind: str) -> str:
    """The name of the activity in the schema; of another activity the verb of the kind."""
    return ACTIVITIES[mapped.of].get(mapped.activity, kind.partition(":")[2])
