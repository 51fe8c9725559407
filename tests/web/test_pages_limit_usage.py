"""The figures beside a limit: what past proposals came to, on the pages where the limit is changed."""

import pytest
from django.test import Client

from audit.access.roles import Role
from runtime.core import clock
from runtime.flows.models import Verdict
from runtime.proposals.queries import policy_dry_run
from runtime.registry.models import Target
from tests.support import factories, gate_cases, markup, sent_form
from tests.web.test_pages import sign_in

pytestmark = pytest.mark.django_db
MANIFEST = "/agents/trader/manifests/new/"
KIND = "/kinds/ADJUST_POSITION/new/"
IN_CENTS = {
    **gate_cases.KIND["params_schema"],
    "properties": {
        **gate_cases.KIND["params_schema"]["properties"],
        "notional_cents": {"type": "integer", "minimum": 1, "x-unit": "cents USD"},
    },
}


@pytest.fixture
def desk() -> factories.Desk:
    Target.objects.create(
        tenant=factories.TENANT, name="broker", base_url="http://127.0.0.1:1", configured_at=clock.now()
    )
    # Many proposals in a minute, of which none is refused for its rate.
    return factories.desk(
        kind=gate_cases.kind(params_schema=IN_CENTS), manifest=gate_cases.manifest(escalations_per_hour=60)
    )


@pytest.fixture
def ada() -> Client:
    return sign_in(Role.ADMIN, name="ada")


def propose(desk: factories.Desk, *amounts: int) -> None:
    for cents in amounts:
        desk.propose(desk.open(), params={**gate_cases.PARAMS, "notional_cents": cents})


def figures(client: Client, page: str, field: str) -> str:
    text = client.get(page).content.decode()
    return of_field(text, field)


def of_field(text: str, field: str) -> str:
    _, _, part = text.partition(f'id="f-{field}-figures"')
    shown, _, _ = part.partition('<span class="hint"')
    return markup.words(f"<span{shown}") if shown else ""


LIMIT, MAXIMUM = "limits-max_notional_cents", "limits-0-limit"


def test_without_proposals_there_are_no_figures(desk: factories.Desk, ada: Client) -> None:
    assert figures(ada, MANIFEST, LIMIT) == "No proposals yet."
    assert figures(ada, KIND, MAXIMUM) == "No proposals yet."


def test_half_nearly_all_and_the_largest(desk: factories.Desk, ada: Client) -> None:
    propose(
        desk, *(at * 1_000 for at in (20, 3, 17, 1, 9, 12, 8, 14, 6, 11, 10, 2, 19, 4, 16, 5, 13, 7, 15, 18))
    )
    expected = "p50 100.00 USD p95 190.00 USD max 200.00 USD of the last 20 proposals"
    assert figures(ada, MANIFEST, LIMIT) == expected
    assert figures(ada, KIND, MAXIMUM) == expected


def test_refused_proposals_count_and_those_of_other_agents_count_for_the_kind_alone(
    desk: factories.Desk, ada: Client
) -> None:
    propose(desk, 30_000, 5_000_000)
    propose(factories.desk(agent_id="second"), 70_000)
    assert (
        figures(ada, MANIFEST, LIMIT)
        == "p50 300.00 USD p95 50,000.00 USD max 50,000.00 USD of the last 2 proposals"
    )
    assert "p50 700.00 USD" in figures(ada, KIND, MAXIMUM)
    assert "of the last 3 proposals" in figures(ada, KIND, MAXIMUM)


def test_only_the_newest_two_hundred_count(
    desk: factories.Desk, ada: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy_dry_run.list_of_agent, "__kwdefaults__", {"kinds": None, "limit": 2})
    propose(desk, 90_000, 10_000, 20_000)
    expected = "p50 100.00 USD p95 200.00 USD max 200.00 USD of the last 2 proposals"
    assert figures(ada, MANIFEST, LIMIT) == expected
    assert policy_dry_run.MOST == 200


def test_a_proposal_that_does_not_match_the_ledger_is_left_out(desk: factories.Desk, ada: Client) -> None:
    propose(desk, 10_000, 20_000)
    forged = Verdict.objects.latest("judged_at")
    Verdict.objects.filter(pk=forged.pk).update(input=bytes(forged.input).replace(b"20000", b"90000"))
    said = figures(ada, MANIFEST, LIMIT)
    assert "max 100.00 USD of the last 1 proposal" in said
    assert "1 left out, not as the ledger has it." in said


def test_a_value_that_the_stored_facts_cannot_give_is_counted_apart(
    desk: factories.Desk, ada: Client
) -> None:
    propose(desk, 10_000)
    fields = sent_form.fields(ada.get(KIND).content.decode())
    # An expression of a draft, over facts that were not stored.
    fields["limits.0.value"] = ["params.notional_cents * context.facts.price.NONE"]
    page = ada.post(KIND, {**fields, "add": "rules"}).content.decode()
    assert of_field(page, MAXIMUM) == "1 could not be calculated."


def test_the_figures_of_a_draft_are_those_of_its_own_expression(desk: factories.Desk, ada: Client) -> None:
    propose(desk, 10_000, 20_000)
    fields = sent_form.fields(ada.get(KIND).content.decode())
    fields |= {"limits.0.value": ["params.notional_cents * 2"], "limits.0.unit": ["cents USD"]}
    page = ada.post(KIND, {**fields, "add": "rules"}).content.decode()
    assert of_field(page, MAXIMUM) == "p50 200.00 USD p95 400.00 USD max 400.00 USD of the last 2 proposals"


def test_two_limits_of_one_kind_on_one_number_count_the_larger_value(ada: Client) -> None:
    limit = gate_cases.KIND["limits"][0]
    twice = [limit, {**limit, "id": "max_shares", "value": "params.quantity"}]
    desk = factories.desk(kind=gate_cases.kind(limits=twice))
    propose(desk, 3, 50_000)
    # Five shares are more than three cents.
    assert figures(ada, MANIFEST, LIMIT) == "p50 5 p95 50,000 max 50,000 of the last 2 proposals"
