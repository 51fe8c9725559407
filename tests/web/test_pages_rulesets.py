"""The pages of rulesets: tables as tables, how often each rule fires, and the activation by another admin."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from audit import canonical
from audit.access.roles import Role
from runtime.advice.models import RuleOutput
from runtime.packs.services import packs
from runtime.registry.models import Ruleset
from tests.support import api_client, markup, underwriting
from tests.support.own_words import stands
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
PAGE = "/rulesets/motor-underwriting/"


@pytest.fixture
def operator() -> Client:
    underwriting.load_packs()
    return sign_in(Role.OPERATOR)


def admin(name: str) -> Client:
    return sign_in(Role.ADMIN, name=name)


def draft(*, by: str) -> None:
    """The next version, which a pack brings without activating it."""
    written = canonical.decode(underwriting.ruleset(version="1.1.0").to_bytes())
    text = canonical.encode({"pack": "newer", "version": "1.0.0", "rulesets": [written]}).decode()
    assert isinstance(packs.load(text=text, source="newer.yaml", activate=False, actor=by), packs.Loaded)


def test_the_list_names_each_ruleset_with_its_size(operator: Client) -> None:
    page = text_of(operator, "/rulesets/")
    for words in (">motor-underwriting</a>", "premium, review", ">1.0.0</span>", ">credit-desk</a>"):
        assert words in page


def test_without_any_the_list_says_where_they_come_from() -> None:
    words = text_of(sign_in(Role.OPERATOR), "/rulesets/")
    assert "No ruleset is registered" in words


def test_a_table_is_shown_as_a_table(operator: Client) -> None:
    page = operator.get(PAGE).content.decode()
    assert '<td class="mono">[18..25)</td>' in page
    assert "ISSUE_POLICY: premium_cents 90000" in page
    assert "Nobody has asked this version yet." in page


def test_what_the_linter_says_has_its_own_word_for_each_severity(operator: Client) -> None:
    page = operator.get(PAGE).content.decode()
    said = page.split("What the linter says")[1].split("</section>")[0]
    assert "Information tables[0] no rule matches for example age" in markup.words(said)
    assert 'data-tone="info"' in said
    assert 'data-tone="warn"' not in said


def test_it_says_how_often_each_rule_fired(operator: Client) -> None:
    agent = api_client.session(underwriting.AGENT)
    dfid = agent.open_flow()
    for claims in (0, 1):
        underwriting.driver_rules(agent, dfid, claims=claims, age=20 if not claims else 40)
    words = text_of(operator, PAGE)
    assert "HIGH_CONFIDENCE_MATCH" in words
    assert "the newest 2 outputs of this version" in words
    assert "never" in words


def test_another_admin_activates_a_draft_and_its_author_cannot(operator: Client) -> None:
    ada = admin("ada")
    draft(by=f"user:{User.objects.get(username='ada').pk}")
    at, form = f"{PAGE}1.1.0/activate/", {"seen_active": "1.0.0", "reason": "Premiums of the new year"}
    admin("another")
    refused = ada.post(at, form)
    assert refused.status_code == 403
    admin("bea").post(at, form)
    assert list(Ruleset.objects.filter(ruleset="motor-underwriting", active=True).values_list("version")) == [
        ("1.1.0",)
    ]
    assert "1.1.0" in text_of(operator, PAGE)


def test_what_was_activated_since_the_page_was_shown_stands(operator: Client) -> None:
    draft(by="system")
    answer = admin("bea").post(f"{PAGE}1.1.0/activate/", {"seen_active": "", "reason": "Too late"})
    assert answer.status_code == 409
    assert not Ruleset.objects.get(version="1.1.0").active


def test_a_discarded_draft_stays_one(operator: Client) -> None:
    draft(by="system")
    bea = admin("bea")
    bea.post(f"{PAGE}1.1.0/discard/", {"reason": "Not needed"})
    assert "Not needed" in text_of(operator, f"{PAGE}?version=1.1.0")
    assert bea.post(f"{PAGE}1.1.0/activate/", {"seen_active": "1.0.0", "reason": "But"}).status_code == 409


def test_what_is_not_there_has_no_page(operator: Client) -> None:
    for address in ("/rulesets/nothing/", f"{PAGE}?version=9.9.9"):
        assert operator.get(address).status_code == 404
    assert admin("bea").post(f"{PAGE}9.9.9/activate/", {"reason": "None"}).status_code == 404


def test_bytes_that_are_not_the_recorded_ones_are_not_shown(operator: Client) -> None:
    row = Ruleset.objects.get(ruleset="motor-underwriting")
    Ruleset.objects.filter(pk=row.pk).update(body=bytes(row.body).replace(b"90000", b"10000"))
    assert "Does not match the ledger" in text_of(operator, "/rulesets/")
    assert not stands("10000", operator.get(PAGE).content.decode())


def test_outputs_that_were_changed_are_not_counted(operator: Client) -> None:
    agent = api_client.session(underwriting.AGENT)
    dfid = agent.open_flow()
    for claims in (0, 1):
        underwriting.driver_rules(agent, dfid, claims=claims)
    RuleOutput.objects.filter(pk=RuleOutput.objects.latest("pk").pk).update(body=b"{}")
    words = text_of(operator, PAGE)
    assert "the newest 1 outputs of this version" in words
    assert "1 output not counted" in words
