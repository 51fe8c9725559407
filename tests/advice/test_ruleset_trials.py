"""The trial of a draft on history: which outputs would differ, which are not asked again, and its bounds."""

from typing import Any

import pytest

from audit import canonical
from runtime.advice.models import RuleOutput
from runtime.advice.queries import ruleset_trials
from runtime.contracts.ruleset import RulesetDocument
from tests.support import api_client, records_desk, underwriting


def draft(**fields: Any) -> RulesetDocument:
    """The next version of the underwriter's rules."""
    return underwriting.ruleset(version="1.1.0", **fields)


def with_rule(at: int, **changes: Any) -> RulesetDocument:
    """The next version, with one rule of its table changed."""
    written = canonical.decode(underwriting.ruleset().to_bytes())
    written["tables"][0]["rules"][at] |= changes
    return draft(tables=written["tables"])


def with_feature(name: str, **feature: Any) -> RulesetDocument:
    """The next version, with one feature more, or of another type."""
    written = canonical.decode(underwriting.ruleset().to_bytes())
    return draft(features={**written["features"], name: feature})


def trial(document: RulesetDocument) -> ruleset_trials.TrialReport:
    return ruleset_trials.ask_again(tenant="default", draft=document)


def test_before_anybody_asks_there_is_nothing_to_ask_again(desk: None) -> None:
    report = trial(draft())
    assert (report.looked_at, report.changes, report.untold, report.is_cut) == (0, (), (), False)


def test_the_same_rules_change_nothing(agent: api_client.Caller, dfid: str) -> None:
    underwriting.driver_rules(agent, dfid)
    underwriting.driver_rules(agent, dfid, claims=3, sanctioned=True)
    assert trial(draft()).changes == ()
    assert trial(with_rule(1, certainty=0.9, justification="Another word")).changes == ()


def test_each_output_that_would_differ_is_named_with_both(agent: api_client.Caller, dfid: str) -> None:
    first = underwriting.driver_rules(agent, dfid)
    underwriting.driver_rules(agent, dfid, age=20, claims=0)
    report = trial(with_rule(1, when=["[50..70]", "-", "-"]))
    (change,) = report.changes
    assert (report.looked_at, str(change.dfid), change.agent_id) == (2, dfid, underwriting.AGENT)
    assert str(change.rule_output_id) == first["rule_output_id"]
    assert (change.was.status, change.now.status) == ("HIGH_CONFIDENCE_MATCH", "NO_MATCH")
    assert [aspect for aspect, _ in change.was.decided] == ["premium"]
    assert change.now.decided == ()


def test_a_guardrail_that_would_be_triggered_is_a_difference(agent: api_client.Caller, dfid: str) -> None:
    underwriting.driver_rules(agent, dfid)
    (change,) = trial(draft(guardrails=[{"id": "G_HILLS", "forbid": "features.region == 'hills'"}])).changes
    assert (change.was.guardrails, change.now.guardrails) == ((), ("G_HILLS",))


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (with_feature("colour", type="string"), "the feature colour was not asked for then"),
        (with_feature("sanctioned", type="string"), "the feature sanctioned had another type then"),
    ],
)
def test_what_was_not_stored_is_not_guessed(
    agent: api_client.Caller, dfid: str, document: RulesetDocument, said: str
) -> None:
    underwriting.driver_rules(agent, dfid)
    report = trial(document)
    assert (report.looked_at, report.changes, report.untold) == (1, (), ((said, 1),))


def test_a_feature_that_is_gone_is_left_out_and_one_that_was_missing_still_is(
    agent: api_client.Caller, dfid: str
) -> None:
    body = {"ruleset": "motor-underwriting", "features": {"age": 40, "claims": 1}, "ages_s": {"age": 1}}
    agent.post(f"/flows/{dfid}/rules", body).ok()
    features = {"age": {"type": "integer"}, "region": {"type": "string"}, "sanctioned": {"type": "boolean"}}
    report = trial(draft(features=features, tables=[], rules=[], aspects=[]))
    assert (report.looked_at, report.untold) == (1, ())


@pytest.mark.parametrize("column", ["input", "body"])
def test_what_does_not_match_the_ledger_is_not_asked(
    agent: api_client.Caller, dfid: str, column: str
) -> None:
    underwriting.driver_rules(agent, dfid)
    row = RuleOutput.objects.get()
    changed = bytes(getattr(row, column)).replace(b"1", b"2")
    RuleOutput.objects.filter(pk=row.pk).update(**{column: changed})
    assert trial(draft()).untold == (("what is stored does not match the ledger", 1),)


def test_what_was_erased_is_not_asked(agent: api_client.Caller, dfid: str) -> None:
    underwriting.driver_rules(agent, dfid)
    RuleOutput.objects.update(input=b"", body=b"")
    assert trial(draft()).untold == (("what was asked has been erased", 1),)


def test_the_newest_are_asked_and_no_more_than_there_is_time_for(
    agent: api_client.Caller, dfid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    underwriting.driver_rules(agent, dfid)
    newest = underwriting.driver_rules(agent, dfid)
    monkeypatch.setattr(ruleset_trials, "MOST", 1)
    report = trial(with_rule(1, when=["[50..70]", "-", "-"]))
    assert [str(change.rule_output_id) for change in report.changes] == [newest["rule_output_id"]]
    monkeypatch.setattr(ruleset_trials, "MOST_S", 0)
    report = trial(draft())
    assert (report.looked_at, report.is_cut) == (0, True)


def test_policies_are_asked_again_of_the_same_agent_and_kind(desk: None) -> None:
    records_desk.load_pack()
    agent = api_client.session(records_desk.AGENT)
    dfid = agent.open_flow()
    records_desk.ask(agent, dfid)
    policy = records_desk.policy(
        "MINE", 'permit (principal == Agent::"records-clerk", action == Action::"SHARE_RECORD", resource);'
    )
    assert trial(records_desk.ruleset(policy, version="1.1.0")).changes == ()
    other = records_desk.policy("MINE", 'permit (principal == Agent::"somebody", action, resource);')
    (change,) = trial(records_desk.ruleset(other, version="1.1.0")).changes
    assert change.now.guardrails == ("NO_PERMIT",)


def test_policies_cannot_be_asked_where_no_kind_was_named(agent: api_client.Caller, dfid: str) -> None:
    underwriting.driver_rules(agent, dfid)
    request = {"resource": {"type": "Driver", "id": "region"}, "cedarpy": "4.12.2"}
    policies = [{"id": "P", "decides": "premium", "cedar": records_desk.PERMIT}]
    report = trial(draft(cedar_request=request, policies=policies))
    assert report.untold == (("the policy kind was not asked for then", 1),)
