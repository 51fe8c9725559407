"""The search over everything: by the beginning, middle and end of an id, by names, and what it costs."""

import re
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django.fixtures import Settings

from audit.access.roles import Role
from escalations.models import Escalation
from runtime.core import clock, id_search
from runtime.execution.services import attempting
from runtime.flows.models import Attempt, Flow, Intent, Proposal
from runtime.flows.queries import flow_summaries
from runtime.flows.views import flow_words
from runtime.registry.models import Agent
from tests.support import demo_scenes, misbehaving_targets, trading_desk, worlds
from tests.web.test_pages import code_in, sign_in, text_of

pytestmark = pytest.mark.django_db
scene = worlds.shared(demo_scenes.build)
LINK = re.compile(r'data-row="([^"]+)"')


@pytest.fixture
def reader() -> Client:
    return sign_in(Role.AUDITOR, name="aud")


def found(client: Client, text: str) -> list[str]:
    answer = client.get("/search/", {"q": text})
    assert answer.status_code == 200, text
    return LINK.findall(answer.content.decode())


def parts(pk: object) -> list[str]:
    """The whole of an id, its beginning, its end as lists show it, and pieces across its hyphens."""
    text = str(pk)
    return [
        text,
        text.upper(),
        text.replace("-", ""),
        text[:13],
        text[-12:],
        f"…{text[-8:]}",
        text[-5:],
        text[14:23],
        text[10:27].replace("-", ""),
        f"  {text[-12:]} ",
    ]


def test_a_flow_is_found_by_every_part_of_its_id(reader: Client, scene: demo_scenes.Scene) -> None:
    for dfid in (scene.flows[0], scene.flows[-1]):
        for part in parts(dfid):
            assert f"/flows/{dfid}/" in found(reader, part), part


def test_so_it_is_on_the_page_of_flows(reader: Client, scene: demo_scenes.Scene) -> None:
    dfid = scene.flows[4]
    for part in parts(dfid)[3:]:
        rows = LINK.findall(text_of(reader, f"/flows/?dfid={part}", **{"HX-Request": "true"}))
        assert dfid in rows, part
    assert LINK.findall(text_of(reader, "/flows/?dfid=ghij", **{"HX-Request": "true"})) == []


def test_so_are_escalations_proposals_and_intents(reader: Client, scene: demo_scenes.Scene) -> None:
    escalation = Escalation.objects.latest("escalation_id")
    proposal = Proposal.objects.latest("proposal_id")
    intent = Intent.objects.latest("intent_id")
    for part in parts(escalation.pk):
        assert f"/escalations/{escalation.pk}/" in found(reader, part), part
    for row in (proposal, intent):
        for part in parts(row.pk):
            assert f"/flows/{row.flow_id}/" in found(reader, part), part


def test_the_end_of_an_id_is_searched_among_the_newest_alone(
    reader: Client, scene: demo_scenes.Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    oldest, newest = scene.flows[0], scene.flows[-1]
    monkeypatch.setattr(id_search, "NEWEST", 2)
    tail = f"/flows/?dfid={oldest[-12:]}"
    assert LINK.findall(text_of(reader, tail, **{"HX-Request": "true"})) == []
    assert newest in LINK.findall(text_of(reader, f"/flows/?dfid={newest[-12:]}"))
    assert oldest in LINK.findall(text_of(reader, f"/flows/?dfid={oldest[:26]}"))
    assert "newest 2" in text_of(reader, "/search/?q=ffff")


def test_short_parts_are_beginnings(scene: demo_scenes.Scene) -> None:
    rows = Flow.objects.all()
    head, tail = scene.flows[0][:3], scene.flows[0][-3:]
    assert rows.filter(id_search.having(rows, head)).count() == len(scene.flows)
    assert not rows.filter(id_search.having(rows, tail)).exists()


@pytest.mark.parametrize(
    ("text", "link"),
    [
        ("momentum", "/agents/momentum-trader/"),
        ("MOMENTUM", "/agents/momentum-trader/"),
        ("transfer", "/kinds/TRANSFER_FUNDS/"),
        ("broker", "/targets/"),
        ("aud", "/decisions/?person=aud"),
        ("risk limit", "/flows/?reason=RISK_LIMIT_EXCEEDED"),
        ("budg", "/budgets/"),
    ],
)
def test_names_are_found_by_a_part(reader: Client, scene: demo_scenes.Scene, text: str, link: str) -> None:
    assert link in found(reader, text)


def test_a_call_by_its_key_and_a_receipt_by_its_reference(reader: Client, settings: Settings) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    receipt = misbehaving_targets.answer(200, b'{"order_id":"ord_Q77aa","status":"FILLED"}')
    with misbehaving_targets.stand_in(receipt) as target:
        desk = trading_desk.open_desk(base_url=target.base_url)
        intent = desk.accept()
        attempting.attempt(intent, owner=trading_desk.OWNER)
    flow = f"/flows/{trading_desk.flow_of(intent).pk}/"
    key = Attempt.objects.get(intent=intent).target_key
    for text in ("ord_q77", "Q77a", key, key[:8], key[-6:]):
        assert flow in found(reader, text), text


def test_hostile_texts_never_fail(reader: Client, scene: demo_scenes.Scene) -> None:
    for text in (
        "%",
        "_",
        "'",
        "\\",
        "\x00",
        "\u202e",
        "<b>x",
        "f" * 500,
        "-",
        "----",
        "…",
        "0" * 32,
        "g" * 32,
    ):
        for part in ("", "palette", "x"):
            assert reader.get("/search/", {"q": text, "part": part}).status_code == 200, text
    page = text_of(reader, "/search/?q=%3Cscript%3Ealert(1)%3C/script%3E")
    assert "<script>alert" not in page
    assert code_in(page) == []


def test_an_effect_of_an_agent_stays_text(reader: Client, scene: demo_scenes.Scene) -> None:
    for dfid in scene.flows:
        assert code_in(text_of(reader, f"/search/?q={dfid}")) == []


def test_the_cost_does_not_grow_with_what_is_found(reader: Client, scene: demo_scenes.Scene) -> None:
    counts = []
    for text in (scene.flows[0], scene.flows[0][:4]):
        with CaptureQueriesContext(connection) as captured:
            found(reader, text)
        counts.append(len(captured))
    # A whole id asks for no other part of one.
    assert counts[1] <= counts[0] + 2 * 5 + 2


def test_lists_of_flows_and_agents_say_what_and_how_it_ended(
    reader: Client, scene: demo_scenes.Scene
) -> None:
    flows = text_of(reader, "/flows/")
    for words in ("NVDA", "Escalated", "Rejected", "Under way"):
        assert words in flows.split("<tbody>")[1], words
    agents = text_of(reader, "/agents/")
    last = agents.split('href="/agents/ambitious-trader/"')[1].split("</tr>")[0]
    assert "AAPL" in last
    assert "Escalated" in last


def test_the_words_of_many_flows_cost_as_much_as_those_of_one(
    scene: demo_scenes.Scene, django_assert_num_queries: Any
) -> None:
    dfids = [UUID(dfid) for dfid in scene.flows]
    for some in (dfids[:1], dfids):
        with django_assert_num_queries(2):
            assert len(flow_words.of_flows(tenant="default", dfids=some)) == len(some)
    agents = list(Agent.objects.values_list("pk", flat=True))
    with django_assert_num_queries(1):
        assert set(flow_summaries.last_flows(agent_pks=agents).values()) <= set(dfids)


def test_a_rewritten_verdict_is_not_shown_as_what_a_flow_does(
    reader: Client, scene: demo_scenes.Scene
) -> None:
    proposal = Proposal.objects.select_related("verdict").get(flow=UUID(scene.flows[0]))
    body = bytes(proposal.verdict.body).replace(b"AAPL", b"SAFE")
    type(proposal.verdict).objects.filter(pk=proposal.pk).update(body=body)
    flows = text_of(reader, "/flows/")
    assert flows.count("This row does not match the ledger") == 1
    assert "SAFE" not in flows


def palette(client: Client, text: str = "") -> dict[str, str]:
    """The options of the palette: words by address."""
    page = text_of(client, f"/search/?part=palette&q={text}", **{"HX-Request": "true"})
    assert "<html" not in page
    options = re.findall(r'<a role="option"[^>]* href="([^"]+)">(.*?)</a>', page, re.DOTALL)
    return {url: " ".join(re.sub(r"<[^>]+>", " ", words).split()) for url, words in options}


def test_the_palette_offers_pages_and_what_the_person_may_do(scene: demo_scenes.Scene) -> None:
    admin, auditor = sign_in(Role.ADMIN, name="ada"), sign_in(Role.AUDITOR, name="aud")
    assert {"/", "/escalations/", "/decisions/", "/ledger/", "/register-agent/"} <= palette(admin).keys()
    assert "/register-agent/" not in palette(auditor)
    stop = "/agents/momentum-trader/#agent-switch"
    assert palette(admin, "stop+momentum")[stop] == "Stop agent momentum-trader"
    assert palette(admin, "momentum")[stop] == "Stop agent momentum-trader"
    assert palette(admin, "Stop+agent+MOMENTUM-T").keys() == {stop}
    assert stop not in palette(auditor, "stop+momentum")
    assert palette(admin, "stop+all")["/#stop-all"] == "Stop all agents and calls"
    Agent.objects.filter(agent_id="momentum-trader").update(stopped_at=clock.now())
    assert palette(admin, "momentum")[stop] == "Resume agent momentum-trader"


def test_what_an_action_leads_to_is_on_its_page(scene: demo_scenes.Scene) -> None:
    admin = sign_in(Role.ADMIN, name="ada")
    for url in (*palette(admin), *palette(admin, "momentum")):
        path, _, place = url.partition("#")
        assert not place or f'id="{place}"' in text_of(admin, path), url


def test_the_search_works_without_a_script(reader: Client, scene: demo_scenes.Scene) -> None:
    page = text_of(reader, "/flows/")
    assert re.search(r'<form method="get" action="/search/"[^>]*class="side-search"', page)
    assert re.search(r'<a [^>]*href="/search/"[^>]*data-palette', page)
