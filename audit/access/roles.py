"""Who may do what: one table of permissions, each with the roles that have it. Pure."""

from collections.abc import Collection, Mapping
from enum import StrEnum
from types import MappingProxyType


class Role(StrEnum):
    """Roles add up; the value is the name of the group. Every role may read every page."""

    OPERATOR = "operator"
    SENIOR = "senior"
    ADMIN = "admin"
    AUDITOR = "auditor"


class Permission(StrEnum):
    """Something that a person may do besides reading."""

    DECIDE = "DECIDE"
    ANSWER_TASKS = "ANSWER_TASKS"
    REVIEW = "REVIEW"
    WRITE_NOTES = "WRITE_NOTES"
    GIVE_FEEDBACK = "GIVE_FEEDBACK"
    STOP = "STOP"
    RESUME = "RESUME"
    TEST_TARGETS = "TEST_TARGETS"
    CLOSE_CIRCUITS = "CLOSE_CIRCUITS"
    MANAGE_REGISTRY = "MANAGE_REGISTRY"
    MANAGE_BUDGETS = "MANAGE_BUDGETS"
    MANAGE_MEMORY = "MANAGE_MEMORY"
    MANAGE_GUARDS = "MANAGE_GUARDS"
    MANAGE_GROUPS = "MANAGE_GROUPS"
    MANAGE_NOTIFICATIONS = "MANAGE_NOTIFICATIONS"
    MANAGE_PEOPLE = "MANAGE_PEOPLE"
    END_RECOVERY = "END_RECOVERY"
    WORK_INCIDENTS = "WORK_INCIDENTS"
    MANAGE_INCIDENT_RULES = "MANAGE_INCIDENT_RULES"
    MANAGE_OUTWARD = "MANAGE_OUTWARD"
    ERASE = "ERASE"
    MANAGE_HOLDS = "MANAGE_HOLDS"
    RUN_REPLAYS = "RUN_REPLAYS"
    RUN_SCENARIOS = "RUN_SCENARIOS"


_AT_WORK = frozenset({Role.OPERATOR, Role.SENIOR, Role.ADMIN})
_DESK = frozenset({Role.OPERATOR, Role.SENIOR})
_ABOVE = frozenset({Role.SENIOR, Role.ADMIN})
_ADMINS = frozenset({Role.ADMIN})

HOLDERS: Mapping[Permission, frozenset[Role]] = MappingProxyType(
    {
        Permission.DECIDE: _DESK,
        # And only in the group that the task is for.
        Permission.ANSWER_TASKS: _AT_WORK,
        Permission.REVIEW: _DESK,
        # Not auditors: whoever audits the console leaves no trace of their own in it.
        Permission.WRITE_NOTES: _AT_WORK,
        # Nor auditors here: what they say of a decision belongs in their report, not in what they audit.
        Permission.GIVE_FEEDBACK: _AT_WORK,
        # More people may stop than may resume.
        Permission.STOP: _AT_WORK,
        Permission.RESUME: _ABOVE,
        Permission.TEST_TARGETS: _AT_WORK,
        Permission.CLOSE_CIRCUITS: _ABOVE,
        Permission.MANAGE_REGISTRY: _ADMINS,
        Permission.MANAGE_BUDGETS: _ADMINS,
        Permission.MANAGE_MEMORY: _ADMINS,
        Permission.MANAGE_GUARDS: _ADMINS,
        Permission.MANAGE_GROUPS: _ADMINS,
        Permission.MANAGE_NOTIFICATIONS: _ADMINS,
        Permission.MANAGE_PEOPLE: _ADMINS,
        Permission.END_RECOVERY: _ADMINS,
        Permission.WORK_INCIDENTS: _AT_WORK,
        Permission.MANAGE_INCIDENT_RULES: _ADMINS,
        Permission.MANAGE_OUTWARD: _ADMINS,
        Permission.ERASE: _ADMINS,
        # Apart from ERASE: who keeps words for a dispute need not be able to destroy any.
        Permission.MANAGE_HOLDS: _ADMINS,
        # A run changes nothing but the ledger, which says who looked.
        Permission.RUN_REPLAYS: frozenset({Role.AUDITOR, Role.ADMIN}),
        Permission.RUN_SCENARIOS: _ADMINS,
    }
)

MEANINGS: Mapping[Permission, str] = MappingProxyType(
    {
        Permission.DECIDE: "Claim and decide escalations, and state what became of a call in doubt.",
        Permission.ANSWER_TASKS: "Answer the tasks of the groups that they are in.",
        Permission.REVIEW: "Close the reviews that soft guards open.",
        Permission.WRITE_NOTES: "Write notes, and hand over a shift.",
        Permission.GIVE_FEEDBACK: "Say what you think of a decision record.",
        Permission.STOP: "Stop one agent, or everything.",
        Permission.RESUME: "Resume what was stopped.",
        Permission.TEST_TARGETS: "Test whether a target can be reached.",
        Permission.CLOSE_CIRCUITS: "Close a target's circuit before its time.",
        Permission.MANAGE_REGISTRY: "Register agents, issue keys, change owners, draft and activate "
        "manifests, policy kinds and calibration maps.",
        Permission.MANAGE_BUDGETS: "Refill escalation tokens and change capacities.",
        Permission.MANAGE_MEMORY: "Release or discard what is in quarantine.",
        Permission.MANAGE_GUARDS: "Switch soft guards on and off.",
        Permission.MANAGE_GROUPS: "Create groups and change who is in them.",
        Permission.MANAGE_NOTIFICATIONS: "Add, change, switch, test and delete notification routes.",
        Permission.MANAGE_PEOPLE: "Invite users, change the roles of others, deactivate them and end their "
        "sessions.",
        Permission.END_RECOVERY: "End the recovery of a restored backup.",
        Permission.WORK_INCIDENTS: "Open incidents, change, link and close them, and write post-mortems.",
        Permission.MANAGE_INCIDENT_RULES: "Draft, activate and switch off rules that open incidents.",
        Permission.MANAGE_OUTWARD: "Add, change, test, pause and resume receivers of events, and move "
        "their positions.",
        Permission.ERASE: "Erase the words of a flow that has ended; rotate the keys of payloads, and "
        "destroy retired ones with what is under them.",
        Permission.MANAGE_HOLDS: "Place legal holds on flows and subjects, and release them.",
        Permission.RUN_REPLAYS: "Start and cancel runs that replay all flows of a period.",
        Permission.RUN_SCENARIOS: "Start and end scenarios of the demo, where the demo runs.",
    }
)


def allows(roles: Collection[str], permission: Permission) -> bool:
    """Whether somebody with these roles may do it."""
    return not HOLDERS[permission].isdisjoint(roles)
