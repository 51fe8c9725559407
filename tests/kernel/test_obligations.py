"""What a verdict obliges the runtime to, and by which codes it allows."""

from typing import Any

import pytest

from runtime.contracts.facts import Lift
from runtime.contracts.obligation import Obligation
from runtime.contracts.states import Decision
from runtime.contracts.verdict import VerdictDocument
from runtime.kernel.gate import obligations
from runtime.kernel.gate.gate_input import Case
from tests.support import gate_cases

AUDIT, SIGN, APPROVAL, REDACT, LIMIT = Obligation
PLAIN: dict[str, Any] = {"limits": [], "claims": []}


def judged(**fields: Any) -> tuple[Case, VerdictDocument]:
    return gate_cases.case(**fields), gate_cases.judge(**fields)


def owed(**fields: Any) -> list[Obligation]:
    case, verdict = judged(**fields)
    return list(obligations.list_obligations(verdict, proposal=case.proposal, rules=case.rules))


def rules(**kind: Any) -> dict[str, Any]:
    return {"rules": gate_cases.rules(kind=gate_cases.kind(**{**PLAIN, **kind}))}


def test_every_verdict_is_recorded_and_a_reject_owes_no_more() -> None:
    assert owed(**rules()) == [AUDIT]
    refused = {"proposal": gate_cases.proposal(params={**gate_cases.PARAMS, "quantity": 0})}
    assert owed(**rules(limits=gate_cases.KIND["limits"]), **refused) == [AUDIT]
    assert owed(rules=gate_cases.rules(kind=None)) == [AUDIT]


def test_what_asks_a_person_owes_an_approval() -> None:
    asking = {"proposal": gate_cases.proposal(human_review_required=True)}
    assert owed(**rules(), **asking) == [AUDIT, APPROVAL]


def test_what_a_person_made_owes_its_signature() -> None:
    made = {"proposal": gate_cases.proposal(by_person=True, author="user:7")}
    assert owed(**rules(), **made) == [AUDIT, SIGN, APPROVAL]


def test_limits_and_claims_are_owed() -> None:
    assert owed() == [AUDIT, LIMIT]


@pytest.mark.parametrize(("of", "found"), [(["receipt"], [AUDIT, REDACT]), (["explain"], [AUDIT])])
def test_what_is_redacted_of_receipts_is_owed(of: list[str], found: list[Obligation]) -> None:
    assert owed(**rules(redact=[{"id": "mail", "pattern": "email", "of": of}])) == found


def test_what_allows_says_what_was_asked() -> None:
    _, verdict = judged()
    codes = obligations.list_codes(verdict)
    assert verdict.decision is Decision.ACCEPT
    assert codes[:3] == ["SCHEMA_OK", "AUTHORITY_OK", "VALIDITY_OK"]
    assert set(codes) == {f"{finding.check.upper()}_OK" for finding in verdict.findings}


def test_what_a_person_lifted_is_named() -> None:
    lift = Lift(check="confidence", code="LOW_CONFIDENCE", subject="", proposed_value="0.1")
    _, verdict = judged(
        proposal=gate_cases.proposal(confidence=0.1), facts=gate_cases.facts(lifts=(lift,)), **rules()
    )
    assert verdict.decision is Decision.ACCEPT
    assert "CONFIDENCE_LIFTED" in obligations.list_codes(verdict)


def test_what_rejects_says_only_why() -> None:
    _, verdict = judged(proposal=gate_cases.proposal(params={**gate_cases.PARAMS, "quantity": 0}))
    assert obligations.list_codes(verdict) == ["INVALID_SCHEMA"]
