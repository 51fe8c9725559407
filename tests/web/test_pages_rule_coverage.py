"""Rule coverage: which rules fire, never or always, and what people made of those that asked them."""

from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from audit.access.roles import Role
from escalations.contracts import Action
from escalations.models import Escalation
from runtime.advice.models import RuleOutput
from runtime.contracts.problem import Problem
from runtime.maintenance.queries import rule_coverage
from runtime.maintenance.queries.rule_coverage import RuleUse
from runtime.registry.models import Ruleset
from tests.support import api_client, factories, markup, underwriting
from tests.web.test_pages import sign_in

pytestmark = pytest.mark.django_db
PAGE = "/rule-coverage/"


@pytest.fixture
def agent() -> api_client.Caller:
    underwriting.load_packs()
    return api_client.session(underwriting.AGENT)


def use(rule_id: str) -> RuleUse:
    found = rule_coverage.measure(tenant=factories.TENANT)
    return next(each for each in found.rules if each.rule_id == rule_id)


def propose(agent: api_client.Caller, **params: Any) -> UUID:
    """A proposal of what the desk's own rules select for this driver."""
    dfid = agent.open_flow()
    action = {
        "name": "ISSUE_POLICY",
        "parameters": {**underwriting.DRIVER, "premium_cents": underwriting.PREMIUM, **params},
    }
    option = {"id": "A", "action": action, "utilities": {"margin": 1}, "confidence": 0.9}
    asked = {"objectives": [{"id": "margin", "weight": 1}], "options": [option]}
    package = agent.post(f"/flows/{dfid}/decide", asked).ok()
    body = underwriting.proposal(package["decision_id"]) | {
        "params": action["parameters"],
        "context_ref": agent.context(dfid),
    }
    agent.propose(dfid, body).ok()
    return UUID(dfid)


def words(client: Client, query: str = "") -> str:
    answer = client.get(f"{PAGE}{query}")
    assert answer.status_code == 200
    return markup.words(answer.content.decode())


def test_a_rule_fires_never_sometimes_or_always(agent: api_client.Caller) -> None:
    dfid = agent.open_flow()
    for age in (40, 20):
        underwriting.driver_rules(agent, dfid, age=age)
    assert (use("ADULT").fired, use("ADULT").outputs, use("ADULT").often) == (1, 2, "")
    rules = {each.rule_id: each for each in rule_coverage.measure(tenant=factories.TENANT).rules}
    assert {each.often for each in rules.values() if each.ruleset == "motor-underwriting"} >= {"", "never"}
    # Nobody asked this one.
    assert (rules["L_GOOD"].outputs, rules["L_GOOD"].often) == (0, "")
    assert {each.place for each in rules.values()} >= {"rule", "guardrail", "table lines"}
    said = words(sign_in(Role.OPERATOR))
    assert "ADULT motor-underwriting" in said
    assert "1 of 2" in said


def test_a_rule_that_always_fires_and_one_that_contradicts(agent: api_client.Caller) -> None:
    dfid = agent.open_flow()
    underwriting.ask(agent, dfid, score=777, balance=5, region="east")
    assert use("P_CAUTION").often == "always"
    assert use("P_CAUTION").contradicted == 1
    assert "always" in words(sign_in(Role.OPERATOR))


def test_what_people_chose_is_counted_by_the_rule_that_asked_them(agent: api_client.Caller) -> None:
    olivia = factories.user("olivia")
    for action in (Action.OVERRIDE, Action.ABORT):
        dfid = propose(agent, region="fixed")
        done = factories.decide(Escalation.objects.get(flow=dfid), olivia, action)
        assert not isinstance(done, Problem), done
    propose(agent, region="fixed")
    propose(agent, region="war")
    found = use("P_FIXED")
    assert (found.asked, found.overridden, found.changed, found.aborted) == (3, 1, 0, 1)
    assert (use("P_WAR").refused, use("P_WAR").asked) == (1, 0)
    assert "1 overridden, 0 changed, 1 aborted" in words(sign_in(Role.OPERATOR))


def test_an_output_or_ruleset_that_was_changed_is_left_out(agent: api_client.Caller) -> None:
    underwriting.driver_rules(agent, agent.open_flow())
    RuleOutput.objects.update(body=b"{}")
    assert use("ADULT").outputs == 0
    Ruleset.objects.filter(ruleset="credit-desk").update(body=b"{}")
    said = words(sign_in(Role.OPERATOR))
    assert "credit-desk does not match the ledger, so it is left out." in said
    assert "L_GOOD" not in said


def test_only_the_newest_are_read(agent: api_client.Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_coverage, "MOST", 1)
    underwriting.driver_rules(agent, agent.open_flow())
    assert "Only the newest 1 outputs" in words(sign_in(Role.OPERATOR))


def test_without_rulesets_it_says_so_and_what_cannot_be_read_too() -> None:
    client = sign_in(Role.OPERATOR)
    assert "No ruleset is active" in words(client)
    for typed, said in (("0", "0 is not a number of days from 1 to 366."), ("", "An empty field is not")):
        assert said in words(client, f"?days={typed}")
    assert f'href="{PAGE}"' in client.get("/rulesets/").content.decode()
