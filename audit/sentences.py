"""Build the one-line summary of a ledger entry from its payload, per kind.

The result is plain text with values from agents: templates escape it. A field that an older entry does not
have is left out, or shown as a dash.
"""

from collections.abc import Callable, Mapping
from typing import Any

from audit import actors


def says(template: str) -> Callable[[Mapping[str, Any]], str]:
    """Return a function that fills the payload's fields into `template`, which names them in braces."""

    def sentence(payload: Mapping[str, Any]) -> str:
        return template.format_map(_Lenient(payload))

    return sentence


class _Lenient(dict[str, Any]):
    """A mapping that returns a dash for fields an older entry does not have."""

    def __missing__(self, key: str) -> str:
        return "-"


def verdict(payload: Mapping[str, Any]) -> str:
    codes = ", ".join(dict.fromkeys(str(reason["code"]) for reason in payload["reasons"]))
    return f"Verdict: {payload['verdict']}" + (f": {codes}." if codes else ".")


def moved(payload: Mapping[str, Any]) -> str:
    why = f": {payload['reason']}" if payload["reason"] else ""
    return f"From {payload['from_state']} to {payload['to_state']}{why}."


def task_context(payload: Mapping[str, Any]) -> str:
    match payload["part"]:
        case "EVENT":
            what = "The agent added an event"
        case "LINK":
            at = "" if payload["link_version"] is None else f", version {payload['link_version']}"
            what = f"The agent linked {payload['link_ref']}{at}"
        case _:
            what = "The agent changed its notes"
    return f"{what}: version {payload['version']}, a claim that no check reads."


def flow_erased(payload: Mapping[str, Any]) -> str:
    cells = sum(payload["counts"].values()) + payload["payloads"]
    return f"The words of this flow were erased from {count(cells, 'cell')}: {payload['reason']}."


def hold_placed(payload: Mapping[str, Any]) -> str:
    kept = f"flow {payload['dfid']}" if payload["dfid"] else f"every flow about {payload['subject']}"
    return f"The hold {payload['name']} keeps the words of {kept}."


def invariants_checked(payload: Mapping[str, Any]) -> str:
    place = "Before" if payload["place"] == "BETWEEN_STEPS" else "After"
    violated = ", ".join(payload["violated"])
    if violated:
        return f"{place} {payload['step']}: violated: {violated}."
    return f"{place} {payload['step']}: all hold: {', '.join(payload['held'])}."


def receipt_misfit(payload: Mapping[str, Any]) -> str:
    asked = "a person is asked" if payload["asked"] else "it goes on"
    return f"{payload['severity']}: {', '.join(payload['pointers'])}; {asked}."


def callback_progressed(payload: Mapping[str, Any]) -> str:
    percent = payload["percent"]
    done = "" if percent is None else f": {percent} % done"
    return f"Report {payload['report']} on attempt {payload['number']}{done}."


def callback_reported(payload: Mapping[str, Any]) -> str:
    late = "; nothing waited for it any more" if payload["is_late"] else ""
    return f"The target reported that attempt {payload['number']} {payload['status']}{late}."


def facts_pruned(payload: Mapping[str, Any]) -> str:
    versions = sum(fact["through"] - fact["first"] + 1 for fact in payload["pruned"])
    return (
        f"{count(versions, 'version')} of {count(len(payload['pruned']), 'fact')} "
        f"(DIR_FACT_RETENTION: {payload['selector']}={payload['days']})."
    )


def replay_started(payload: Mapping[str, Any]) -> str:
    since, until = payload["since"], payload["until"]
    period = (f" since {since}" if since else "") + (f" until {until}" if until else "")
    return f"{count(payload['flows'], 'flow')}{period} to be replayed."


def replay_ended(payload: Mapping[str, Any]) -> str:
    how = "Cancelled" if payload["state"] == "CANCELLED" else "Done"
    return (
        f"{how}: {payload['equal']} equal, {payload['different']} different, "
        f"{payload['erased']} erased, {payload['failed']} failed."
    )


def compiled(payload: Mapping[str, Any]) -> str:
    return f"Sent {count(payload['fact_count'], 'fact')} to the agent, valid until {payload['expires_at']}."


def step(payload: Mapping[str, Any]) -> str:
    labels = ", ".join(payload.get("source_labels") or ())
    return f"The agent reported a step: {payload['step_type']}" + (f", from {labels}." if labels else ".")


_proposed = says("{author} proposes {policy_kind} {policy_version}, valid until {valid_until}")


def proposed(payload: Mapping[str, Any]) -> str:
    key = payload.get("signed_by")
    return _proposed(payload) + (f", signed with its key {key}." if key else ".")


def session(payload: Mapping[str, Any]) -> str:
    said = (("instance", payload.get("instance_id")), ("environment", payload.get("environment")))
    claims = ", ".join(f"{name} {value}" for name, value in said if value)
    under = f"{payload['agent_id']} with manifest {payload['manifest_version']}"
    return under + (f", self-reported: {claims}." if claims else ".")


def review_closed(payload: Mapping[str, Any]) -> str:
    by = f"{payload['guard_id']}: " if payload["guard_id"] else ""
    return f"{by}{payload['result']}, {payload['note']}."


def labels_changed(payload: Mapping[str, Any]) -> str:
    who, now = payload["agent_id"], ", ".join(payload["labels"]) or "none"
    if payload["ended"]:
        return f"{who}: {', '.join(payload['ended'])} ended: {payload['reason']}. It has {now}."
    return f"{who} got {', '.join(payload['gained'])} ({payload['because'].lower()}). It has {now}."


def memory(payload: Mapping[str, Any]) -> str:
    why = ", ".join(payload.get("reasons", ()))
    held = (f" In quarantine: {why}." if why else " In quarantine.") if payload["quarantined"] else ""
    return (
        f"{payload['scope']}/{payload['key']} version {payload['version']}, from {payload['source']}.{held}"
    )


def memory_read(payload: Mapping[str, Any]) -> str:
    item = f"{payload['scope']}/{payload['key']}"
    if payload["decision"] != "allow":
        return f"{item} denied by {payload['rule']}."
    version = payload["version"]
    return f"{item} version {version}, by {payload['rule']}." if version else f"{item}: nothing to read."


def usage(payload: Mapping[str, Any]) -> str:
    parts = [count(payload["tokens"], "token")]
    if payload["cost_usd"]:
        parts.append(f"{payload['cost_usd']} USD")
    if payload.get("tool_calls"):
        parts.append(count(payload["tool_calls"], "tool call"))
    if not payload.get("intent_id"):
        return f"The agent reported {' and '.join(parts)}."
    unread = payload.get("unread") or ()
    missing = f"; the answer does not say {' and '.join(unread)}" if unread else ""
    return f"Attempt {payload['number']} used {' and '.join(parts)}, as its answer says{missing}."


def opened(payload: Mapping[str, Any]) -> str:
    due = f", due {payload['deadline_at']}" if payload["deadline_at"] else ""
    impact = str(payload["impact"]).replace("_", " ").lower()
    return f"Escalated: {payload['reason']} ({impact}){due}."


def started(payload: Mapping[str, Any]) -> str:
    what = "to undo" if payload.get("direction") == "COMPENSATE" else "of"
    if payload.get("purpose") == "PROBE":
        what = f"checks the result of the call {what}"
    return f"Attempt {payload['number']} {what} step {payload['step']}."


def advanced(payload: Mapping[str, Any]) -> str:
    done = "undone" if payload["direction"] == "COMPENSATE" else "done"
    onward = f"; {payload['next_step']} is next" if payload["next_step"] else ""
    return f"Step {payload['step']} is {done}{onward}."


def dirtied(payload: Mapping[str, Any]) -> str:
    return (
        f"Step {payload['step']} will not be completed ({payload['cause']}): "
        f"{', '.join(payload['done'])} will be undone. The agent is locked until then."
    )


def compensated(payload: Mapping[str, Any]) -> str:
    return f"All completed steps are undone: {', '.join(payload['undone'])}."


def finished(payload: Mapping[str, Any]) -> str:
    parts = [f"Attempt {payload['number']}: {payload['result']}"]
    if payload["status_code"] is not None:
        parts.append(f"HTTP {payload['status_code']}")
    if payload["error_category"]:
        parts.append(str(payload["error_category"]))
    if payload["next_at"]:
        parts.append(f"next retry at {payload['next_at']}")
    return ", ".join(parts) + "."


_REDACTED_IN = {"receipt": "the receipt", "explain": "the explanation", "answer": "the agent's answer"}


def redacted(payload: Mapping[str, Any]) -> str:
    what = _REDACTED_IN.get(payload["source"], payload["source"])
    rules = ", ".join(f"{rule} ({times})" for rule, times in payload["rules"].items())
    return f"Replaced in {what} before it was stored: {rules}."


def feedback(payload: Mapping[str, Any]) -> str:
    said = str(payload["assessment"]).replace("_", " ").capitalize()
    again = ", in place of earlier feedback" if payload["number"] > 1 else ""
    by_decider = ", from someone who decided it" if payload["has_decided"] else ""
    return f"{said}: record {payload['record_id']}{again}{by_decider}. It changes nothing that was decided."


def scored(payload: Mapping[str, Any]) -> str:
    reason = str(payload["reason"]).rstrip(".")
    return f"Record {payload['record_id']} is {payload['result']} by {payload['suite']}: {reason}."


def outcome(payload: Mapping[str, Any]) -> str:
    found = payload["deviations"]
    deviations = f", {count(found, 'deviation')} from the expected result" if found else ""
    return f"Ended as {payload['status']}{deviations}."


def named(payload: Mapping[str, Any]) -> str:
    told = f"Came to {payload['outcome']}." if payload["outcome"] else "No allowed outcome."
    outputs = f" Outputs: {', '.join(payload['outputs'])}." if payload["outputs"] else ""
    wrong = ", ".join(f"{item['code']} ({item['place']})" for item in payload["findings"])
    return f"{told}{outputs}" + (f" Found: {wrong}." if wrong else "")


def intent(payload: Mapping[str, Any]) -> str:
    return f"{count(len(payload['step_ids']), 'step')} to execute until {payload['valid_until']}."


def roles(payload: Mapping[str, Any]) -> str:
    return f"User {payload['user_id']}: {', '.join(payload['roles']) or 'no role'}."


def invited(payload: Mapping[str, Any]) -> str:
    what = "A new password can be set" if payload.get("reset") else "A first password can be set"
    return f"{what} for user {payload['user_id']} under a link until {payload['expires_at']}."


def password_changed(payload: Mapping[str, Any]) -> str:
    how = " under an invite link" if payload.get("by_invite") else ""
    return f"The password of user {payload['user_id']} was changed{how}."


def claimed(payload: Mapping[str, Any]) -> str:
    return "Claim renewed by the same person." if payload.get("renewed") else "Claimed by a person."


def unconfirmed(payload: Mapping[str, Any]) -> str:
    why = "made too many attempts" if payload["locked"] else "entered a wrong password"
    return f"User {payload['user_id']} {why}."


def signins(payload: Mapping[str, Any]) -> str:
    parts = [count(payload["failed"], "failed sign-in")]
    if payload["locked"]:
        parts.append(f"{payload['locked']} rate-limited")
    users = [item["name"] for item in payload["names"] if actors.is_user(item["name"])]
    known = f" Users tried: {', '.join(users)}." if users else ""
    return f"In the minute from {payload['minute']}: {', '.join(parts)}.{known}"


def whatif(payload: Mapping[str, Any]) -> str:
    codes = f": {', '.join(payload['codes'])}" if payload["codes"] else ""
    return f"Dry run of {payload['action'] or 'a decision'}: {payload['verdict']}{codes}."


def groups(payload: Mapping[str, Any]) -> str:
    parts = [f"{word} {', '.join(payload[word])}" for word in ("gained", "lost") if payload[word]]
    noticed = "" if payload.get("done_here") else "; detected, not changed through the console"
    return f"User {payload['user_id']} {' and '.join(parts)}{noticed}."


def reserved(payload: Mapping[str, Any]) -> str:
    until = f" until {payload['lease_until']}" if payload["lease_until"] else ""
    return f"{payload['amount']} of {payload['resource']} reserved{until}."


def tokens(payload: Mapping[str, Any]) -> str:
    whole, thousandths = divmod(int(payload["tokens_left_milli"]), 1000)
    return f"An escalation token was spent; {whole}.{thousandths:03d} left."


def edited(payload: Mapping[str, Any]) -> str:
    changed = [
        f"{name} from {payload[f'{field}_before'] or 'none'} to {payload[f'{field}_after'] or 'none'}"
        for field, name in (("owner", "owner"), ("review", "review date"))
        if payload[f"{field}_before"] != payload[f"{field}_after"]
    ]
    if payload["mission_before"] != payload["mission_after"]:
        changed.append(f"mission to: {payload['mission_after']}")
    return f"{payload['agent_id']}: {', '.join(changed)}."


def owner_changed(payload: Mapping[str, Any]) -> str:
    solo = " Approved by the only admin." if payload.get("solo") else ""
    return (
        f"{payload['agent_id']}: {payload['owner_after']} instead of {payload['owner_before']}, "
        f"requested by {payload['asked_by']}.{solo}"
    )


def activated(payload: Mapping[str, Any]) -> str:
    name = payload.get("agent_id") or payload.get("policy_kind") or payload.get("name")
    why = f": {payload['reason']}" if payload.get("reason") else ""
    solo = " Activated by its author, the only admin." if payload.get("solo") else ""
    return f"{name} version {payload['version']} is active{why}.{solo}"


def status_changed(payload: Mapping[str, Any]) -> str:
    why = f": {payload['reason']}" if payload["reason"] else ""
    return f"{payload['agent_id']} from {payload['from_status']} to {payload['to_status']}{why}."


def tried_again(payload: Mapping[str, Any]) -> str:
    lifted = payload.get("lifted")
    against = f" Overridden by a person: {', '.join(lifted)}." if lifted else ""
    return f"Will be retried with the same key.{against}"


def superseded(payload: Mapping[str, Any]) -> str:
    stated = " A person stated that it had no effect." if payload["stated_without_effect"] else ""
    return f"Replaced by another intent: {payload['by_intent_id']}.{stated}"


EFFECTS = {
    "HAPPENED": " A person stated that the call in doubt took effect.",
    "NOT_HAPPENED": " A person stated that the call in doubt had no effect.",
    "UNKNOWN": " The effect of the call in doubt is not known.",
}


def decided(payload: Mapping[str, Any]) -> str:
    said = EFFECTS.get(payload.get("effect") or "", "")
    signed = f"signed with key {payload['key_id']}"
    return f"{payload['action']} on evidence revision {payload['revision']}, {signed}.{said}"


def refused(payload: Mapping[str, Any]) -> str:
    return f"{payload['action'] or 'A decision'} was rejected: {payload['code']}."


FIRST_ENDS = {
    "CONFIRMED": "The second person chose the same.",
    "DIFFERED": "The second person chose differently, and is now the first of two.",
    "WITHDRAWN": "Its author withdrew it.",
    "EVIDENCE_CHANGED": "It had signed evidence that is no longer current.",
    "RIGHTS_CHANGED": "Its author may no longer decide this.",
    "ABORTED": "A person aborted: this needs no second one.",
    "DEADLINE_PASSED": "No second person decided before the deadline.",
}


def first_ended(payload: Mapping[str, Any]) -> str:
    return FIRST_ENDS.get(payload["why"], "The flow ended.")


def limit_changed(payload: Mapping[str, Any]) -> str:
    on = payload["policy_kind"] or "all kinds"
    solo = " Set by the only admin." if payload.get("solo") else ""
    what = "impact" if payload["of_impact"] else f"amounts in {payload['unit'] or 'no unit'}"
    most = payload["impact"] if payload["of_impact"] else payload["amount"]
    if most is None:
        return f"{payload['holder']}: no limit of {what} for {on} any longer.{solo}"
    return f"{payload['holder']}: at most {most} for {on}, {what}.{solo}"


def late(payload: Mapping[str, Any]) -> str:
    words = f"Attempt {payload['number']} got a late response: {payload['result']}."
    if not payload.get("contradicts"):
        return words
    return f"{words} {payload['contradicts']} stated earlier that the call did not take effect."


def stated(payload: Mapping[str, Any]) -> str:
    what = "the undo of step" if payload["direction"] == "COMPENSATE" else "step"
    became = {"HAPPENED": "took effect", "NOT_HAPPENED": "had no effect"}.get(
        payload["effect"], "is in doubt"
    )
    return f"A person stated that the call in doubt of {what} {payload['step']} {became}."


def settled(payload: Mapping[str, Any]) -> str:
    which = ", ".join(str(number) for number in payload["numbers"])
    became = {"HAPPENED": "took effect", "NOT_HAPPENED": "had no effect"}.get(
        payload["effect"], "is in doubt"
    )
    by = {"receipt": "a receipt", "probe": "a status query to the target"}.get(payload["by"], payload["by"])
    calls = "The call of attempt" if len(payload["numbers"]) == 1 else "The call of attempts"
    return f"{calls} {which} {became}, according to {by}."


def status_found(payload: Mapping[str, Any]) -> str:
    status = f"HTTP {payload['status_code']}" if payload.get("status_code") else payload.get("error_category")
    words = {
        "FOUND": "The target has the call",
        "NOT_FOUND": "The target does not know the key",
        "NOT_SENT": f"No status query was sent ({payload.get('why')})",
    }.get(payload["found"], "The target did not say what became of the call")
    return f"{words}{f' ({status})' if status else ''}. Nothing was settled by it."


def question_closed(payload: Mapping[str, Any]) -> str:
    why = {"WAIT_ENDED": "no answer in time, the deadline resumes", "DECIDED": "a person decided"}
    return f"Question {payload['number']} is closed: {why.get(payload['why'], 'the flow ended')}."


def restored(payload: Mapping[str, Any]) -> str:
    here = f"the newest here is {payload['newest_entry']}."
    said = f"Entry {payload['missing_entry']} is missing; {here}" if payload["missing_entry"] else ""
    if not payload.get("witness"):
        return said or f"The mark cannot be read; {here}"
    held = f"The witness {payload['witness']} holds a checkpoint over {payload['missing_size']} entries"
    return f"{said} {held} that this database does not begin with.".strip()


def resumed(payload: Mapping[str, Any]) -> str:
    return f"Resumed: {payload['reason']}." if payload.get("reason") else "Resumed."


def route(payload: Mapping[str, Any]) -> str:
    to = f" to {payload['to_step']}" if payload["to_step"] else ""
    return f"Route {payload['route']} after {payload['step']}: {payload['action']}{to}."


def checked(payload: Mapping[str, Any]) -> str:
    found = "can be called" if payload["is_good"] else "cannot be called"
    return f"{payload['target']} {found}; no request was sent."


def switched(payload: Mapping[str, Any]) -> str:
    return f"{payload['guard_id']} switched {'on' if payload['enabled'] else 'off'}: {payload['reason']}."


def tool_server_switched(payload: Mapping[str, Any]) -> str:
    return f"{payload['server']} switched {'on' if payload['enabled'] else 'off'}: {payload['reason']}."


def route_switched(payload: Mapping[str, Any]) -> str:
    return f"{payload['name']} switched {'on' if payload['enabled'] else 'off'}."


def flagged(payload: Mapping[str, Any]) -> str:
    stopped = " The agent was suspended." if payload["agent_suspended"] else ""
    codes = ", ".join(payload["codes"])
    return f"{payload['guard_id']} requested a review, confidence {payload['confidence']}: {codes}.{stopped}"


def incident_opened(payload: Mapping[str, Any]) -> str:
    rule = (
        f" Opened by the rule {payload['rule']}, version {payload['rule_version']}."
        if payload["rule"]
        else ""
    )
    return f"{payload['severity']}: {payload['title']}.{rule}"


def incident_edited(payload: Mapping[str, Any]) -> str:
    lead = payload["lead"] or "nobody"
    return f"{payload['severity']}: {payload['title']}, led by {lead}. {payload['reason']}."


def key_destroyed(payload: Mapping[str, Any]) -> str:
    gone = count(payload["payloads"], "payload")
    return (
        f"With the key {payload['key_id']} of {payload['data_class']}, what was under it was erased: {gone}."
    )


def reencryption(payload: Mapping[str, Any]) -> str:
    what = f"under the key {payload['key_id']}" if payload["key_id"] else "in clear"
    return f"Payloads {what} will be encrypted with the key in use of {payload['data_class']}."


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
