"""Define how each kind of ledger entry is shown: icon, lane, short title and summary.

Summaries are plain text with values from agents: templates escape them.
"""

from collections.abc import Mapping
from types import MappingProxyType

from audit import (
    presenters_of_conversations,
    presenters_of_guards,
    presenters_of_rulesets,
    presenters_of_waiting,
    presenters_of_workflows,
    sentences,
)
from audit.events import Kind
from audit.lanes import LANES, Lane, LaneShown, Presenter
from audit.sentences import says

__all__ = ["LANES", "PRESENTERS", "Lane", "LaneShown", "Presenter", "present"]


def present(kind: str) -> Presenter:
    """Return the presenter of a stored kind; a kind written by a newer version gets a generic one."""
    return PRESENTERS[Kind(kind)] if kind in Kind.__members__.values() else _UNKNOWN


_UNKNOWN = Presenter(
    "ledger", Lane.SYSTEM, "Entry of another version", lambda payload: "Recorded by another version."
)

PRESENTERS: Mapping[Kind, Presenter] = MappingProxyType(
    {
        Kind.FLOW_OPENED: Presenter("flow", Lane.CONTEXT, "Flow opened", says("Opened by {agent_id}.")),
        Kind.FLOW_ERASED: Presenter("cross", Lane.SYSTEM, "Words erased", sentences.flow_erased),
        Kind.FLOW_MOVED: Presenter("next", Lane.SYSTEM, "State changed", sentences.moved),
        Kind.TASK_CONTEXT_CHANGED: Presenter(
            "layers", Lane.CONTEXT, "Task context changed", sentences.task_context
        ),
        Kind.CHILD_OPENED: Presenter(
            "flow", Lane.REASONING, "Child flow opened", says("{agent_id} works for it in a separate flow.")
        ),
        Kind.CONTEXT_COMPILED: Presenter("layers", Lane.CONTEXT, "Context compiled", sentences.compiled),
        Kind.STEP_REPORTED: Presenter("thought", Lane.REASONING, "Step reported", sentences.step),
        Kind.USAGE_REPORTED: Presenter("budget", Lane.REASONING, "Usage reported", sentences.usage),
        Kind.PROPOSAL_SUBMITTED: Presenter(
            "send",
            Lane.PROPOSAL,
            "Proposal submitted",
            sentences.proposed,
        ),
        Kind.REDACTION_APPLIED: Presenter("lock", Lane.SYSTEM, "Parts not stored", sentences.redacted),
        Kind.VERDICT_GIVEN: Presenter("shield", Lane.VALIDATION, "Verdict given", sentences.verdict),
        Kind.ESCALATION_OPENED: Presenter("refer", Lane.ESCALATION, "Escalation opened", sentences.opened),
        Kind.ESCALATION_REVISED: Presenter(
            "edit", Lane.ESCALATION, "Evidence revised", says("Revision {revision}: {why}.")
        ),
        Kind.ESCALATION_CLAIMED: Presenter("user", Lane.ESCALATION, "Escalation claimed", sentences.claimed),
        Kind.ESCALATION_RELEASED: Presenter(
            "user", Lane.ESCALATION, "Escalation released", says("Returned to the queue.")
        ),
        Kind.ESCALATION_TAKEN_OVER: Presenter(
            "user", Lane.ESCALATION, "Claim taken over", says("Taken from a colleague; the notes say why.")
        ),
        Kind.ESCALATION_HANDED_OVER: Presenter(
            "user", Lane.ESCALATION, "Claim handed over", says("Given to a colleague, with a note.")
        ),
        Kind.ESCALATION_REFUSED: Presenter("cross", Lane.DECISION, "Decision rejected", sentences.refused),
        Kind.ESCALATION_DECIDED: Presenter(
            "check",
            Lane.DECISION,
            "Decision made",
            sentences.decided,
        ),
        Kind.ESCALATION_FIRST_DECIDED: Presenter(
            "user",
            Lane.DECISION,
            "First of two decisions",
            says(
                "Signed on evidence revision {revision} with key {key_id}. A second person must decide; "
                "the choice is shown at the end."
            ),
        ),
        Kind.ESCALATION_FIRST_ENDED: Presenter(
            "user", Lane.DECISION, "First of two decisions ended", sentences.first_ended
        ),
        Kind.ESCALATION_REOPENED: Presenter(
            "undo",
            Lane.DECISION,
            "Decision taken back",
            says("Nothing had run. The escalation is open again."),
        ),
        Kind.ESCALATION_EXPIRED: Presenter(
            "clock", Lane.DECISION, "Escalation expired", says("No decision before the deadline: aborted.")
        ),
        Kind.ESCALATION_WITHDRAWN: Presenter(
            "clock", Lane.ESCALATION, "Escalation withdrawn", says("The flow ended: no decision needed.")
        ),
        Kind.INFORMATION_REQUESTED: Presenter(
            "ask",
            Lane.ESCALATION,
            "Agent asked",
            says("Question {number} on evidence revision {revision}; the deadline is paused until {until}."),
        ),
        Kind.INFORMATION_ANSWERED: Presenter(
            "thought",
            Lane.ESCALATION,
            "Agent answered",
            says("The agent answered question {number}. The answer is unverified."),
        ),
        Kind.INFORMATION_CLOSED: Presenter(
            "clock", Lane.ESCALATION, "Question closed", sentences.question_closed
        ),
        Kind.INTENT_CREATED: Presenter("bolt", Lane.EXECUTION, "Intent created", sentences.intent),
        Kind.INTENT_CANCELLED: Presenter(
            "cross", Lane.EXECUTION, "Intent cancelled", says("Cancelled before execution: {reason}.")
        ),
        Kind.INTENT_BLOCKED: Presenter(
            "cross", Lane.EXECUTION, "Intent blocked", says("The pre-call check failed: {code}.")
        ),
        Kind.INVARIANTS_CHECKED: Presenter(
            "shield", Lane.EXECUTION, "Invariants checked", sentences.invariants_checked
        ),
        Kind.RECEIPT_MISFIT: Presenter(
            "ask", Lane.EXECUTION, "Receipt does not fit its schema", sentences.receipt_misfit
        ),
        Kind.INTENT_HELD: Presenter(
            "stop", Lane.EXECUTION, "Intent held", says("Held before the call: {why}.")
        ),
        Kind.INTENT_IN_DOUBT: Presenter(
            "ask",
            Lane.EXECUTION,
            "Result unknown",
            says("Attempt {number} ended without a known result."),
        ),
        Kind.INTENT_RESUMED: Presenter("play", Lane.EXECUTION, "Intent resumed", sentences.tried_again),
        Kind.INTENT_WOKEN: Presenter(
            "play",
            Lane.EXECUTION,
            "Waiting intents released",
            says("The circuit of {target} closed: {count} waiting intents are due."),
        ),
        Kind.INTENT_DELAYED: Presenter(
            "wait",
            Lane.EXECUTION,
            "Undo window",
            says("Nothing runs before {not_before}; it can be taken back."),
        ),
        Kind.INTENT_RELEASED: Presenter(
            "check", Lane.EXECUTION, "Undo window ended", says("The decision is final; the agent is told.")
        ),
        Kind.INTENT_RETURNED: Presenter(
            "undo", Lane.EXECUTION, "Intent returned", says("The intent is with a person again: {state}.")
        ),
        Kind.INTENT_SUPERSEDED: Presenter("edit", Lane.EXECUTION, "Intent superseded", sentences.superseded),
        Kind.ATTEMPT_STARTED: Presenter("play", Lane.EXECUTION, "Attempt started", sentences.started),
        Kind.ATTEMPT_FINISHED: Presenter("check", Lane.EXECUTION, "Attempt finished", sentences.finished),
        Kind.ATTEMPT_REPORTED_LATE: Presenter("clock", Lane.EXECUTION, "Late response", sentences.late),
        Kind.ATTEMPT_SETTLED: Presenter("check", Lane.EXECUTION, "Call settled", sentences.settled),
        Kind.STATUS_QUERY_STARTED: Presenter(
            "ask",
            Lane.DECISION,
            "Status query",
            says("Asked {target} what became of the call of attempt {number}."),
        ),
        Kind.STATUS_QUERY_FINISHED: Presenter(
            "ask", Lane.DECISION, "Status query answered", sentences.status_found
        ),
        Kind.EFFECT_STATED: Presenter("check", Lane.DECISION, "Effect stated", sentences.stated),
        Kind.SAGA_ADVANCED: Presenter("check", Lane.EXECUTION, "Step finished", sentences.advanced),
        Kind.SAGA_DIRTIED: Presenter(
            "layers", Lane.EXECUTION, "Partially executed; compensating", sentences.dirtied
        ),
        Kind.SAGA_COMPENSATED: Presenter(
            "check", Lane.EXECUTION, "Compensation finished", sentences.compensated
        ),
        Kind.OUTCOME_RECORDED: Presenter("record", Lane.EXECUTION, "Outcome recorded", sentences.outcome),
        Kind.OUTCOME_NAMED: Presenter("record", Lane.EXECUTION, "Outcome named", sentences.named),
        Kind.RESOURCE_CONFIGURED: Presenter(
            "lock", Lane.SYSTEM, "Resource configured", says("{resource}: capacity {capacity} {unit}.")
        ),
        Kind.RESOURCE_RESERVED: Presenter("lock", Lane.VALIDATION, "Resource reserved", sentences.reserved),
        Kind.RESOURCE_PINNED: Presenter(
            "lock",
            Lane.EXECUTION,
            "Reservation pinned",
            says("{amount} of {resource} reserved for the call."),
        ),
        Kind.RESOURCE_COMMITTED: Presenter(
            "lock", Lane.EXECUTION, "Resource used", says("{amount} of {resource} used.")
        ),
        Kind.RESOURCE_RELEASED: Presenter(
            "lock",
            Lane.EXECUTION,
            "Resource released",
            says("{amount} of {resource} released: {reason}."),
        ),
        Kind.AGENT_REGISTERED: Presenter(
            "agent", Lane.SYSTEM, "Agent registered", says("{agent_id}, {role}, owned by {owner}.")
        ),
        Kind.AGENT_EDITED: Presenter("edit", Lane.SYSTEM, "Agent profile updated", sentences.edited),
        Kind.AGENT_OWNER_CHANGE_ASKED: Presenter(
            "user",
            Lane.SYSTEM,
            "Owner change requested",
            says("{agent_id}: {owner_after} instead of {owner_before}, once another admin approves."),
        ),
        Kind.AGENT_OWNER_CHANGED: Presenter("user", Lane.SYSTEM, "Owner changed", sentences.owner_changed),
        Kind.AGENT_OWNER_CHANGE_DROPPED: Presenter(
            "cross",
            Lane.SYSTEM,
            "Owner change rejected",
            says("{agent_id}: {owner_after} does not become owner."),
        ),
        Kind.AGENT_STATUS_CHANGED: Presenter(
            "agent",
            Lane.SYSTEM,
            "Agent status changed",
            sentences.status_changed,
        ),
        Kind.AGENT_AUTONOMY_CHANGED: Presenter(
            "agent",
            Lane.SYSTEM,
            "Level of autonomy changed",
            says("{agent_id}: {from_level} to {to_level}. {reason}."),
        ),
        Kind.AGENT_LABELS_CHANGED: Presenter(
            "agent", Lane.SYSTEM, "Labels changed", sentences.labels_changed
        ),
        Kind.AGENT_STOPPED: Presenter("stop", Lane.SYSTEM, "Agent stopped", says("{agent_id}: {reason}.")),
        Kind.AGENT_RESUMED: Presenter("play", Lane.SYSTEM, "Agent resumed", sentences.resumed),
        Kind.MANIFEST_REGISTERED: Presenter(
            "record", Lane.SYSTEM, "Manifest registered", says("{agent_id} version {version}.")
        ),
        Kind.MANIFEST_ACTIVATED: Presenter("record", Lane.SYSTEM, "Manifest activated", sentences.activated),
        Kind.MANIFEST_DISCARDED: Presenter(
            "cross", Lane.SYSTEM, "Manifest discarded", says("{agent_id} version {version}: {reason}.")
        ),
        Kind.SESSION_OPENED: Presenter("lock", Lane.SYSTEM, "Session opened", sentences.session),
        Kind.KEY_ISSUED: Presenter("lock", Lane.SYSTEM, "Key issued", says("Key {key_id} for {subject}.")),
        Kind.KEY_REVOKED: Presenter("lock", Lane.SYSTEM, "Key revoked", says("Key {key_id}.")),
        Kind.KIND_REGISTERED: Presenter(
            "kind", Lane.SYSTEM, "Policy kind registered", says("{policy_kind} version {version}.")
        ),
        Kind.KIND_ACTIVATED: Presenter("kind", Lane.SYSTEM, "Policy kind activated", sentences.activated),
        Kind.KIND_DISCARDED: Presenter(
            "cross", Lane.SYSTEM, "Policy kind discarded", says("{policy_kind} version {version}: {reason}.")
        ),
        Kind.PACK_LOADED: Presenter("kind", Lane.SYSTEM, "Pack loaded", says("{pack} version {version}.")),
        Kind.TARGET_CONFIGURED: Presenter(
            "bolt", Lane.SYSTEM, "Target configured", says("{name} at {base_url}, signed calls: {signed}.")
        ),
        Kind.TOOL_FOUND: Presenter(
            "search", Lane.SYSTEM, "Tool found", says("{tool} of {server}, not pinned.")
        ),
        Kind.TOOL_PINNED: Presenter(
            "lock", Lane.SYSTEM, "Tool pinned", says("{tool} of {server} as described: {reason}.")
        ),
        Kind.TOOL_QUARANTINED: Presenter(
            "stop", Lane.SYSTEM, "Tool quarantined", says("{tool} of {server}: {because}. It is not called.")
        ),
        Kind.TOOL_SERVER_SWITCHED: Presenter(
            "bolt", Lane.SYSTEM, "MCP server switched", sentences.tool_server_switched
        ),
        Kind.TARGET_CHECKED: Presenter("bolt", Lane.SYSTEM, "Target tested", sentences.checked),
        Kind.CIRCUIT_OPENED: Presenter(
            "stop",
            Lane.SYSTEM,
            "Circuit opened",
            says("{target} failed {failures} times in a row: no calls before {retry_at}."),
        ),
        Kind.CIRCUIT_CLOSED: Presenter(
            "check", Lane.SYSTEM, "Circuit closed", says("Calls to {target} resume: {reason}.")
        ),
        Kind.ROUTE_TAKEN: Presenter("next", Lane.EXECUTION, "Route taken", sentences.route),
        Kind.ROUTE_FAILED: Presenter(
            "cross",
            Lane.EXECUTION,
            "Route not evaluated",
            says("Route {route} could not be evaluated after {step}: {why}."),
        ),
        Kind.AGENT_ADVISED: Presenter(
            "agent", Lane.EXECUTION, "Agent advised", says("{agent_id}: {advice}.")
        ),
        Kind.FACT_NOT_WRITTEN: Presenter(
            "cross", Lane.EXECUTION, "Fact not written", says("{path} from the receipt: {why}.")
        ),
        Kind.FACT_WRITTEN: Presenter(
            "layers", Lane.CONTEXT, "Fact written", says("{path} version {version} by {writer}.")
        ),
        Kind.MEMORY_READ: Presenter("layers", Lane.CONTEXT, "Memory read", sentences.memory_read),
        Kind.MEMORY_WRITTEN: Presenter("layers", Lane.CONTEXT, "Memory written", sentences.memory),
        Kind.MEMORY_REFUSED: Presenter(
            "cross", Lane.CONTEXT, "Memory write denied", says("{scope}/{key} denied by {rule} ({code}).")
        ),
        Kind.MEMORY_RELEASED: Presenter(
            "layers", Lane.CONTEXT, "Memory released", says("{scope}/{key} version {version} can be read.")
        ),
        Kind.MEMORY_DISCARDED: Presenter(
            "cross", Lane.CONTEXT, "Memory discarded", says("{scope}/{key} version {version} stays hidden.")
        ),
        Kind.ARTIFACT_REGISTERED: Presenter(
            "record", Lane.CONTEXT, "Artifact registered", says("{media_type}, {size_bytes} bytes.")
        ),
        Kind.BUDGET_SPENT: Presenter("budget", Lane.ESCALATION, "Budget spent", sentences.tokens),
        Kind.BUDGET_REFILLED: Presenter(
            "budget",
            Lane.SYSTEM,
            "Budget refilled",
            says("Refilled to {tokens} escalation tokens: {reason}."),
        ),
        Kind.SYSTEM_STOPPED: Presenter("stop", Lane.SYSTEM, "Everything stopped", says("{reason}.")),
        Kind.EPOCH_RESTORED: Presenter(
            "stop",
            Lane.SYSTEM,
            "Backup restored",
            sentences.restored,
        ),
        Kind.EPOCH_BEGUN: Presenter("play", Lane.SYSTEM, "New epoch", says("Epoch {epoch}: {reason}.")),
        Kind.SYSTEM_RESUMED: Presenter("play", Lane.SYSTEM, "Everything resumed", sentences.resumed),
        Kind.REQUEST_REFUSED: Presenter(
            "cross", Lane.SYSTEM, "Request refused", says("{path} was refused: {code}.")
        ),
        Kind.GROUP_ADDED: Presenter("user", Lane.SYSTEM, "Group created", says("{name}, without members.")),
        Kind.LIMIT_CHANGED: Presenter("lock", Lane.SYSTEM, "Limit changed", sentences.limit_changed),
        Kind.USER_ADDED: Presenter("user", Lane.SYSTEM, "User added", sentences.roles),
        Kind.USER_DEACTIVATED: Presenter(
            "user", Lane.SYSTEM, "User deactivated", says("User {user_id} can no longer sign in.")
        ),
        Kind.USER_INVITED: Presenter("user", Lane.SYSTEM, "User invited", sentences.invited),
        Kind.USER_REACTIVATED: Presenter(
            "user", Lane.SYSTEM, "User reactivated", says("User {user_id} may sign in again.")
        ),
        Kind.USER_SESSIONS_ENDED: Presenter(
            "exit", Lane.SYSTEM, "Sessions ended", says("User {user_id} was signed out: {sessions} sessions.")
        ),
        Kind.USER_PASSWORD_CHANGED: Presenter(
            "lock", Lane.SYSTEM, "Password changed", sentences.password_changed
        ),
        Kind.USER_SIGNED_IN: Presenter("user", Lane.SYSTEM, "Signed in", says("User {user_id} signed in.")),
        Kind.USER_PAUSED: Presenter(
            "wait", Lane.SYSTEM, "Paused", says("Looked at how the last {overrides} overrides ended.")
        ),
        Kind.USER_SIGNED_OUT: Presenter(
            "exit", Lane.SYSTEM, "Signed out", says("User {user_id} signed out.")
        ),
        Kind.USER_CONFIRMATION_FAILED: Presenter(
            "lock", Lane.SYSTEM, "Password not confirmed", sentences.unconfirmed
        ),
        Kind.SIGNIN_FAILED: Presenter("lock", Lane.SYSTEM, "Failed sign-ins", sentences.signins),
        Kind.WHATIF_ANSWERED: Presenter(
            "shield", Lane.DECISION, "Dry run, nothing decided", sentences.whatif
        ),
        Kind.USER_ROLES_CHANGED: Presenter("user", Lane.SYSTEM, "Groups changed", sentences.groups),
        Kind.NOTIFICATION_ROUTE_ADDED: Presenter(
            "send",
            Lane.SYSTEM,
            "Notification route added",
            says("{name} sends notices to {scheme}://{host}."),
        ),
        Kind.NOTIFICATION_ROUTE_CHANGED: Presenter(
            "edit",
            Lane.SYSTEM,
            "Notification route changed",
            says("{name} now sends notices to {scheme}://{host}."),
        ),
        Kind.NOTIFICATION_ROUTE_SWITCHED: Presenter(
            "send", Lane.SYSTEM, "Notification route switched", sentences.route_switched
        ),
        Kind.NOTIFICATION_ROUTE_DELETED: Presenter(
            "send", Lane.SYSTEM, "Notification route deleted", says("{name} no longer sends notices.")
        ),
        Kind.NOTIFICATION_ROUTE_TESTED: Presenter(
            "send", Lane.SYSTEM, "Notification route tested", says("A test notice was queued for {name}.")
        ),
        Kind.NOTE_WRITTEN: Presenter(
            "edit", Lane.ESCALATION, "Note written", says("A note; it is not part of the evidence.")
        ),
        Kind.SHIFT_HANDED_OVER: Presenter(
            "user", Lane.SYSTEM, "Shift handed over", says("A note for whoever works next.")
        ),
        Kind.DEMO_SCENARIO_STARTED: Presenter(
            "play", Lane.SYSTEM, "Demo scenario started", says("{scenario}, for {lasts_s} s at most.")
        ),
        Kind.DEMO_SCENARIO_ENDED: Presenter(
            "cross", Lane.SYSTEM, "Demo scenario ended", says("{scenario} was ended before its time.")
        ),
        Kind.PAYLOAD_ERASED: Presenter(
            "cross", Lane.SYSTEM, "Payload erased", says("Only its commitment is kept: {reason}.")
        ),
        Kind.PAYLOAD_KEY_ROTATED: Presenter(
            "shield", Lane.SYSTEM, "Payload key rotated", says("{key_id} encrypts {data_class} from now on.")
        ),
        Kind.PAYLOAD_KEY_REENCRYPTION_REQUESTED: Presenter(
            "shield", Lane.SYSTEM, "Payloads to be encrypted anew", sentences.reencryption
        ),
        Kind.PAYLOAD_KEY_REWRAPPED: Presenter(
            "shield", Lane.SYSTEM, "Payload keys rewrapped", says("{master_id} wraps {keys} keys.")
        ),
        Kind.PAYLOAD_KEY_DESTROYED: Presenter(
            "cross", Lane.SYSTEM, "Payload key destroyed", sentences.key_destroyed
        ),
        Kind.RECORD_EMITTED: Presenter(
            "ledger", Lane.SYSTEM, "Decision record", says("Record {record_id} is signed: {status}.")
        ),
        Kind.RECORD_SCORED: Presenter("record", Lane.SYSTEM, "Scorecard", sentences.scored),
        Kind.STRATEGY_RULE_PROPOSED: Presenter(
            "thought",
            Lane.SYSTEM,
            "Rule drafted from precedents",
            says("{cases} cases were decided alike by {people} people: {name} {version} is drafted."),
        ),
        Kind.RECORD_FEEDBACK_GIVEN: Presenter("user", Lane.DECISION, "Feedback given", sentences.feedback),
        Kind.SIGNING_KEY_BEGUN: Presenter(
            "shield", Lane.SYSTEM, "Signing key begun", says("Key {key_id} signs checkpoints and decisions.")
        ),
        Kind.ROW_MISMATCHED: Presenter(
            "high",
            Lane.SYSTEM,
            "Row does not match the ledger",
            says("{row} of {row_id} does not match the ledger. It was not used."),
        ),
        Kind.INCIDENT_OPENED: Presenter("high", Lane.SYSTEM, "Incident opened", sentences.incident_opened),
        Kind.INCIDENT_JOINED: Presenter(
            "high", Lane.SYSTEM, "More entries matched", says("{sightings} more matched the rule.")
        ),
        Kind.INCIDENT_LINKED: Presenter("layers", Lane.SYSTEM, "Linked", says("{link_kind} {ref}.")),
        Kind.INCIDENT_UNLINKED: Presenter(
            "cross", Lane.SYSTEM, "Link removed", says("{link_kind} {ref}: {reason}.")
        ),
        Kind.INCIDENT_MOVED: Presenter("next", Lane.SYSTEM, "Incident moved", sentences.moved),
        Kind.INCIDENT_EDITED: Presenter("edit", Lane.SYSTEM, "Incident changed", sentences.incident_edited),
        Kind.INCIDENT_NOTED: Presenter("edit", Lane.SYSTEM, "Note written", says("A note on the incident.")),
        Kind.INCIDENT_ACTION_ADDED: Presenter(
            "check", Lane.SYSTEM, "Action added", says("For {owner}, due on {due_on}.")
        ),
        Kind.INCIDENT_ACTION_DONE: Presenter("check", Lane.SYSTEM, "Action done", says("It is done.")),
        Kind.POST_MORTEM_SAVED: Presenter(
            "record", Lane.SYSTEM, "Post-mortem saved", says("Version {version}.")
        ),
        Kind.POST_MORTEM_SIGNED: Presenter(
            "record", Lane.SYSTEM, "Post-mortem signed off", says("The lead signed off version {version}.")
        ),
        Kind.FACTS_PRUNED: Presenter("cross", Lane.SYSTEM, "Old facts deleted", sentences.facts_pruned),
        Kind.HOLD_PLACED: Presenter("lock", Lane.SYSTEM, "Legal hold placed", sentences.hold_placed),
        Kind.HOLD_RELEASED: Presenter(
            "check", Lane.SYSTEM, "Legal hold released", says("The hold {name} keeps nothing any more.")
        ),
        Kind.INCIDENT_RULE_DRAFTED: Presenter(
            "kind", Lane.SYSTEM, "Incident rule drafted", says("{name} version {version}.")
        ),
        Kind.INCIDENT_RULE_ACTIVATED: Presenter(
            "kind", Lane.SYSTEM, "Incident rule activated", sentences.activated
        ),
        Kind.INCIDENT_RULE_ENDED: Presenter(
            "cross", Lane.SYSTEM, "Incident rule off", says("{name} version {version}: {reason}.")
        ),
        Kind.REPLAY_RUN_STARTED: Presenter(
            "undo", Lane.SYSTEM, "Replay run started", sentences.replay_started
        ),
        Kind.REPLAY_RUN_ENDED: Presenter("undo", Lane.SYSTEM, "Replay run ended", sentences.replay_ended),
        Kind.RECEIVER_ADDED: Presenter(
            "send", Lane.SYSTEM, "Receiver added", says("{name} gets events from leaf {next_leaf} on.")
        ),
        Kind.RECEIVER_CHANGED: Presenter(
            "edit", Lane.SYSTEM, "Receiver changed", says("{name} gets events at {place}.")
        ),
        Kind.RECEIVER_PAUSED: Presenter("wait", Lane.SYSTEM, "Receiver paused", says("{name}: {reason}.")),
        Kind.RECEIVER_RESUMED: Presenter("next", Lane.SYSTEM, "Receiver resumed", says("{name}: {reason}.")),
        Kind.RECEIVER_MOVED: Presenter(
            "next",
            Lane.SYSTEM,
            "Position of a receiver moved",
            says("{name} from leaf {from_leaf} to {to_leaf}: {reason}."),
        ),
        Kind.RECEIVER_TESTED: Presenter(
            "send", Lane.SYSTEM, "Receiver tested", says("A test event was sent to {name}.")
        ),
        **presenters_of_guards.PRESENTERS,
        **presenters_of_rulesets.PRESENTERS,
        **presenters_of_waiting.PRESENTERS,
        **presenters_of_conversations.PRESENTERS,
        **presenters_of_workflows.PRESENTERS,
    }
)
