"""A desk that asks rules: the underwriter of the documentation, and the ruleset of a credit desk."""

from pathlib import Path
from typing import Any

import yaml

from audit import canonical
from runtime.contracts.ruleset import RulesetDocument
from runtime.packs.services import packs
from tests.support import api_client

AGENT = "underwriter"
EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "underwriter.yaml"
DRIVER: dict[str, Any] = {"age": 40, "claims": 1, "region": "hills", "sanctioned": False}
PREMIUM = 48_000

CREDIT = """
pack: credit-desk
version: 1.0.0
rulesets:
  - ruleset: credit-desk
    version: 1.0.0
    strategy: [mandatory, priority, specificity]
    high_confidence: 0.8
    aspects: [line, review]
    features: {score: {type: integer}, balance: {type: integer, max_age_s: 60}, region: {type: string}}
    tables:
      - table: lines
        decides: line
        hit: UNIQUE
        inputs: [score, region]
        rules:
          - {id: L_GOOD, when: [">= 700", "-"], then: {action: SET_LINE, params: {cents: 500000}},
             certainty: 0.95, justification: "Good score"}
          - {id: L_MID, when: ["[600..700)", "not('north')"],
             then: {action: SET_LINE, params: {cents: 100000}}, certainty: 0.75}
          - {id: L_BEST, when: [">= 800", "'island'"], then: {action: SET_LINE, params: {cents: 1}}}
    rules:
      - {id: P_REVIEW, version: 1.0.1, decides: review, when: "features.balance < 0",
         then: {action: REVIEW, params: {}}, certainty: 0.9, priority: 10, mandatory: true,
         justification: "Overdrawn"}
      - {id: P_CAUTION, decides: line, when: "features.score == 777",
         then: {action: SET_LINE, params: {cents: 7}}, certainty: 0.9, priority: 5}
    guardrails:
      - {id: G_FROZEN, forbid: "features.region == 'frozen'", severity: CRITICAL, message: "Frozen region"}
"""


# Beside the rules of the documentation, some that contradict, deny, and read what is not there.
HARD = """
  - ruleset: hard-cases
    version: 1.0.0
    features:
      age: {type: integer, value: "params.age == 99 ? params.missing : params.age"}
      region: {type: string, value: params.region}
    tables:
      - table: ages
        decides: age
        hit: UNIQUE
        inputs: [age]
        rules:
          - {id: SEVENTY, when: ["[70..80]"], then: {action: ISSUE_POLICY}}
          - {id: SEVENS, when: ["77"], then: {action: ISSUE_POLICY, params: {premium_cents: 1}}}
    rules:
      - {id: P_WAR, decides: region, when: "features.region == 'war'", then: {action: DENY}, mandatory: true,
         justification: War}
      - {id: P_FIXED, decides: region, when: "features.region == 'fixed'", mandatory: true,
         then: {action: ISSUE_POLICY, params: {premium_cents: 12345}}}
"""
SECRET = """
  - kind: SECRET_KIND
    version: 1.0.0
    title: What this agent may not do
    risk_tier: T0
    params_schema: {type: object}
    effect: Nothing
"""


def desk_pack() -> str:
    """The example, with the hard cases bound beside its own rules."""
    text = EXAMPLE.read_text()
    text = text.replace("policy_kinds:\n  - kind", f"{HARD.strip(chr(10))}\npolicy_kinds:\n  - kind", 1)
    bound = "[motor-underwriting@1.0.0, hard-cases@1.0.0]"
    text = text.replace("rulesets: [motor-underwriting@1.0.0]", f"rulesets: {bound}", 1)
    text = text.replace("\nagents:", f"{SECRET.rstrip()}\nagents:", 1)
    return text.replace(
        "sanctioned: {type: boolean}\n", "sanctioned: {type: boolean}\n        missing: {type: integer}\n", 1
    )


def ruleset(**fields: Any) -> RulesetDocument:
    """The underwriter's rules, with some fields replaced."""
    written = yaml.safe_load(EXAMPLE.read_text())["rulesets"][0]
    return RulesetDocument.from_bytes(canonical.encode({**written, **fields}))


def load_packs() -> None:
    """Both packs, active."""
    for text in (desk_pack(), CREDIT):
        loaded = packs.load(text=text, source="advice.yaml", activate=True, actor="system")
        assert isinstance(loaded, packs.Loaded), loaded


def ask(caller: api_client.Caller, dfid: str, **features: Any) -> dict[str, Any]:
    """The output of the credit desk's rules."""
    body = {"ruleset": "credit-desk", "features": features}
    answer: dict[str, Any] = caller.post(f"/flows/{dfid}/rules", body).ok()
    return answer


def driver_rules(caller: api_client.Caller, dfid: str, **changes: Any) -> dict[str, Any]:
    """What the underwriter's rules say of a driver."""
    body = {"ruleset": "motor-underwriting", "features": {**DRIVER, **changes}}
    answer: dict[str, Any] = caller.post(f"/flows/{dfid}/rules", body).ok()
    return answer


def option(name: str = "A", *, confidence: float | None = 0.9, **utilities: float) -> dict[str, Any]:
    """An option that issues the policy; its premium goes with its name."""
    params = {**DRIVER, "premium_cents": PREMIUM + ord(name)}
    return {
        "id": name,
        "action": {"name": "ISSUE_POLICY", "parameters": params},
        "utilities": utilities,
        "confidence": confidence,
    }


def proposal(decision_id: str | None = None, **changes: Any) -> dict[str, Any]:
    """A proposal for a driver, which follows a decision package."""
    body: dict[str, Any] = {
        "policy_kind": "ISSUE_POLICY",
        "params": {**DRIVER, "premium_cents": PREMIUM, **changes},
        "execution_constraints": {"validity_window_sec": 30},
        "confidence": 0.95,
        "decision_id": decision_id,
    }
    return {name: value for name, value in body.items() if value is not None}
