"""Whether a call that may have taken effect may be made again without asking anybody."""

from runtime.contracts.policy_kind import OnUnknown
from runtime.contracts.states import Direction, Purpose
from runtime.execution.adapters.executors import registry
from runtime.execution.services import intent_plan
from runtime.execution.services.intent_plan import CurrentCall
from runtime.flows.models import Intent
from runtime.flows.queries import calls_in_doubt
from runtime.registry.queries import target_endpoints
from runtime.registry.queries.target_endpoints import TargetEndpoint


def on_unknown(current: CurrentCall, place: TargetEndpoint | None) -> OnUnknown:
    """What follows an unknown result at this target as it is configured now.

    The kind was checked against its target at load, but targets are deployment settings: one that does not
    honour keys would do the call twice, so a person is asked instead.
    """
    if current.on_unknown is not OnUnknown.RESEND or current.step.executor not in registry.REMOTE:
        return current.on_unknown
    return OnUnknown.RESEND if place is not None and place.honours_keys else OnUnknown.PERSON


def on_unknown_of(intent: Intent) -> OnUnknown:
    """The same for the call that the intent is at; a person where it cannot be read."""
    current = intent_plan.current(intent)
    if current is None:
        return OnUnknown.PERSON
    return on_unknown(current, target_endpoints.get_place(tenant=intent.tenant, name=current.step.target))


def settles_itself(intent: Intent, *, current: CurrentCall, place: TargetEndpoint | None) -> bool:
    """Whether no person is needed to find out what the intent's next call did."""
    return intent.purpose == Purpose.PROBE or on_unknown(current, place) is not OnUnknown.PERSON


def is_allowed(intent: Intent, *, current: CurrentCall, place: TargetEndpoint | None) -> bool:
    """Whether the intent's next call may go out as far as the calls before it go.

    One in doubt is repeated where its target honours keys, or by a person's RESUME; asking is never a repeat.
    One whose receipt came too late has happened, whatever a person stated before; nothing runs in its place.
    """
    if intent.purpose == Purpose.PROBE:
        return True
    key = current.step.key
    if _replaces_what_happened(intent, key=key):
        return False
    if on_unknown(current, place) is OnUnknown.RESEND:
        return True
    done = calls_in_doubt.is_done_unrecorded(intent=intent, key=key)
    return not done and not calls_in_doubt.is_call_unanswered(intent=intent, key=key)


def is_a_persons(intent: Intent) -> bool:
    """Whether only a person may end it: a call of it is in doubt, or known from a late receipt alone."""
    if calls_in_doubt.is_in_doubt(intent=intent):
        return True
    current = intent_plan.current(intent)
    if current is None:
        return False
    key = current.step.key
    return calls_in_doubt.is_done_unrecorded(intent=intent, key=key) or _replaces_what_happened(
        intent, key=key
    )


def _replaces_what_happened(intent: Intent, *, key: str) -> bool:
    """Whether the next call is one to fall back to from a step that has happened after all."""
    forward = intent.direction == Direction.FORWARD
    return forward and calls_in_doubt.is_replaced_known_done(intent=intent, key=key)
