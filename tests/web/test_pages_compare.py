"""Two flows side by side: what differs is said, what does not match the ledger is not compared."""

import re

import pytest
from django.db import transaction
from django.test import Client

from audit.access.roles import Role
from audit.models import LedgerEntry
from runtime.core import clock
from runtime.flows.models import Flow, Proposal
from runtime.proposals.views import compared_flows
from runtime.proposals.views.compared_flows import Phase
from tests.support import recorded_flows, worlds
from tests.support.recorded_flows import Recorded
from tests.web.test_pages import code_in, sign_in, text_of

world = worlds.shared(recorded_flows.build)
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("world")]


@pytest.fixture
def reader() -> Client:
    return sign_in(Role.AUDITOR, name="aud")


def compared(client: Client, a: object, b: object) -> dict[str, tuple[str, str, str]]:
    """Result and both values by group and name."""
    answer = client.get("/flows/compare/", {"a": str(a), "b": str(b)})
    assert answer.status_code == 200
    return {
        f"{group['title']}/{row['name']}": (row["badge"].word, row["a"], row["b"])
        for group in answer.context["groups"]
        for row in group["rows"]
    }


def test_what_differs_is_said_with_both_values(world: Recorded, reader: Client) -> None:
    found = compared(reader, world.flows["accepted"], world.flows["aborted"])
    assert found["Flow/Agent"] == ("Same", "trader", "trader")
    assert found["Verdict/Verdict"] == ("Differs", "Accepted", "Escalated")
    assert found["Verdict/Rules (hash)"][0] == "Same"
    assert found["Parameters/notional_cents"][0] == "Differs"
    assert found["Parameters/symbol"] == ("Same", "AAPL", "AAPL")
    assert found["Decision/Decision"] == ("Differs", "no person decided", "ABORT")
    assert found["Flow/Reason"][0] == "Differs"
    assert found["Execution/Outcome"][2] == "nothing was executed"
    assert any(name.startswith("Context facts/") for name in found)


def test_a_flow_is_the_same_as_itself(world: Recorded, reader: Client) -> None:
    dfid = world.flows["overridden"]
    found = compared(reader, dfid, str(dfid)[-12:])
    assert {word for word, _, _ in found.values()} == {"Same"}


def test_a_flow_without_a_proposal_is_compared_too(world: Recorded, reader: Client) -> None:
    found = compared(reader, world.flows["cancelled"], world.flows["rejected"])
    assert found["Verdict/Verdict"] == ("Only in B", "none", "Rejected")


def test_every_entry_stands_in_one_stage(world: Recorded) -> None:
    for dfid in world.flows.values():
        side = compared_flows.read(Flow.objects.select_related("agent").get(pk=dfid), clock.now())
        seen = sorted(line.seq for lines in side.phases.values() for line in lines)
        assert seen == list(range(1, LedgerEntry.objects.filter(stream=dfid).count() + 1))
    ended = compared_flows.read(
        Flow.objects.select_related("agent").get(pk=world.flows["aborted"]), clock.now()
    )
    assert [line.kind for line in ended.phases[Phase.END]] == ["flow:moved", "record:emitted"]
    assert ended.phases[Phase.ESCALATION]
    assert ended.phases[Phase.DECISION]


def test_a_changed_proposal_is_not_compared(world: Recorded, reader: Client) -> None:
    a, b = world.flows["accepted"], world.flows["rejected"]
    row = Proposal.objects.get(flow=a)
    with transaction.atomic():
        Proposal.objects.filter(pk=row.pk).update(body=bytes(row.body).replace(b"AAPL", b"NVDA"))
    page = text_of(reader, f"/flows/compare/?a={a}&b={b}")
    assert "This row does not match the ledger" in page
    assert "NVDA" not in page
    assert compared(reader, a, b)["Verdict/Verdict"] == ("Only in B", "none", "Rejected")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("00000000-0000-0000-0000-000000000000", "No flow has this id."),
        ("zz", "A flow id has hexadecimal digits"),
        ('"><b>', "A flow id has hexadecimal digits"),
    ],
)
def test_what_names_no_flow_is_said_beside_its_field(
    world: Recorded, reader: Client, given: str, words: str
) -> None:
    answer = reader.get("/flows/compare/", {"a": str(world.flows["accepted"]), "b": given})
    page = answer.content.decode()
    assert re.search(rf'id="c-b-wrong">{words}', page)
    assert code_in(page) == []


def test_a_part_of_several_ids_asks_for_more(world: Recorded, reader: Client) -> None:
    part = str(world.flows["accepted"])[:4]
    assert "Give more of it" in text_of(reader, f"/flows/compare/?a={part}")


def test_a_flow_leads_to_it_and_to_the_one_before(world: Recorded, reader: Client) -> None:
    before, dfid = world.flows["accepted"], world.flows["rejected"]
    page = text_of(reader, f"/flows/{dfid}/")
    assert f'href="/flows/compare/?a={before}&amp;b={dfid}"' in page
    assert 'name="b"' in page
    assert "previous one" not in text_of(reader, f"/flows/{world.flows['cancelled']}/")


@pytest.mark.parametrize("role", list(Role))
def test_each_role_reads_it(world: Recorded, role: Role) -> None:
    client, path = sign_in(role), f"/flows/compare/?a={world.flows['accepted']}&b={world.flows['aborted']}"
    assert code_in(text_of(client, path)) == []
    assert "Choose two flows" in text_of(client, "/flows/compare/")
    assert client.post(path).status_code == 405
    assert Client().get(path)["Location"].startswith("/accounts/login/?next=")
