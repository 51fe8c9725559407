"""Advice with an Idempotency-Key: a repeat of the call gets the first answer, and stores nothing more."""

from typing import Any

import pytest

from audit.verification import findings
from runtime.advice.models import DecisionPackageRow, RuleOutput
from tests.support import api_client, underwriting

RULES: dict[str, Any] = {"ruleset": "motor-underwriting", "features": underwriting.DRIVER}
DECIDE: dict[str, Any] = {"objectives": []}
KEY = {"Idempotency-Key": "once"}


def ask(agent: api_client.Caller, dfid: str, call: str, body: dict[str, Any]) -> api_client.Heard:
    return agent.post(f"/flows/{dfid}/{call}", body, KEY)


@pytest.mark.parametrize(
    ("call", "body", "model"), [("rules", RULES, RuleOutput), ("decide", DECIDE, DecisionPackageRow)]
)
def test_a_repeat_gets_the_first_answer_also_once_the_flow_has_ended(
    agent: api_client.Caller, dfid: str, call: str, body: dict[str, Any], model: Any
) -> None:
    if call == "decide":
        output = underwriting.driver_rules(agent, dfid)
        body = {**body, "rule_output_id": output["rule_output_id"]}
    held = model.objects.count()
    first = ask(agent, dfid, call, body).ok()
    assert ask(agent, dfid, call, body).ok() == first
    assert model.objects.count() == held + 1
    other = {**body, "features": {}} if call == "rules" else {**body, "options": []}
    ask(agent, dfid, call, other).problem(422, "IDEMPOTENCY_KEY_REUSED")
    agent.post(f"/flows/{dfid}/close", {"reason": "done"}).ok()
    assert ask(agent, dfid, call, body).ok() == first
    agent.post(f"/flows/{dfid}/{call}", body).problem(409, "FLOW_NOT_OPEN")
    assert findings.verify_all().findings == []


def test_a_key_of_a_wrong_form_is_refused(agent: api_client.Caller, dfid: str) -> None:
    wrong = {"Idempotency-Key": "a b"}
    agent.post(f"/flows/{dfid}/rules", RULES, wrong).problem(400, "IDEMPOTENCY_KEY_INVALID")
    assert not RuleOutput.objects.exists()
