"""The page of an item of memory: its source, its reasons, who received it, and the one action of an admin."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User

from audit.access.roles import Role
from audit.models import LedgerEntry
from runtime.contracts.source_labels import LabelSource
from runtime.core import clock
from runtime.guards.models import Review
from runtime.guards.queries import memory_reach
from runtime.registry.models import Agent
from runtime.registry.services import agent_labels
from runtime.state.models import MemoryItem
from tests.support import poisoned_memory
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db


def page_of(item: MemoryItem, *roles: Role, query: str = "") -> str:
    return text_of(sign_in(*roles, name=f"reader{User.objects.count()}"), f"/memory/{item.pk}/{query}")


def test_shows_why_an_item_waits() -> None:
    item = poisoned_memory.write(poisoned_memory.desk("web-reader", "WRITE"))
    for page in (page_of(item, Role.AUDITOR), text_of(sign_in(Role.AUDITOR, name="ann"), "/memory/")):
        for words in ("OUTSIDE_SOURCE", "tells it to ignore rules", "orders it to act"):
            assert words in page
        assert "Release" not in page
    page = page_of(item, Role.ADMIN)
    assert "Release" in page
    assert item.digest in page
    assert "no context and no read has included it" in page


def test_shows_characters_that_a_reader_would_not_see() -> None:
    item = poisoned_memory.write(poisoned_memory.desk("web-reader", "WRITE"), "buy\u200b slowly")
    assert "buy⟨U+200B⟩ slowly" in page_of(item, Role.AUDITOR)
    assert "buy⟨U+200B⟩ slowly" in text_of(sign_in(Role.AUDITOR, name="ann"), "/memory/")


def test_every_state_and_source_is_told() -> None:
    story = poisoned_memory.tell()
    writer = poisoned_memory.desk("other", "WRITE")
    page = page_of(story.again(), Role.AUDITOR)
    for words in ("Active", "Released", poisoned_memory.WRONGLY, "Outside", poisoned_memory.SOURCE):
        assert words in page
    own = poisoned_memory.write(writer, "plain", source="agent")
    page = page_of(own, Role.AUDITOR)
    assert "Own claim" in page
    for words in ("Discarded", "Released", "its readers have them"):
        assert words not in page
    assert "Nothing was found against it" in page_of(own, Role.AUDITOR)
    assert "Not active" in page_of(story.again(), Role.AUDITOR)
    MemoryItem.objects.filter(pk=own.pk).update(expires_at=clock.now() - timedelta(seconds=1))
    assert "Expired" in page_of(own, Role.AUDITOR)
    matched = poisoned_memory.write(writer, 18950, source="fact:price.AAPL@1", key="price")
    assert "in the version of the fact" in page_of(matched, Role.AUDITOR)
    wrong = poisoned_memory.write(writer, 1895, source="fact:price.AAPL@1", key="wrong")
    assert "The value is not in the recorded bytes" in page_of(wrong, Role.AUDITOR)
    against = poisoned_memory.write(poisoned_memory.desk("third", "WRITE"), 5, source="agent", key="price")
    assert "stronger source, version 1." in page_of(against, Role.AUDITOR)
    MemoryItem.objects.filter(pk=against.pk).update(reasons=b'["MASS_WRITE:31>30", "OLD"]')
    page = page_of(against, Role.AUDITOR)
    assert "31, of 30 that are allowed" in page
    MemoryItem.objects.filter(pk=against.pk).update(reasons=b"{")
    assert "No reason was recorded" in page_of(against, Role.AUDITOR)


def test_a_discarded_item_says_by_whom_and_why() -> None:
    item = poisoned_memory.write(poisoned_memory.desk("web-reader", "WRITE"))
    said = {"digest": item.digest, "reason": "Nobody knows this page."}
    assert sign_in(Role.ADMIN, name="ada").post(f"/memory/{item.pk}/discard/", said).status_code == 302
    page = page_of(item, Role.AUDITOR)
    for words in ("Discarded", "ada", "Nobody knows this page."):
        assert words in page
    assert "Decided last" in text_of(sign_in(Role.AUDITOR, name="ann"), "/memory/")


def test_lists_the_flows_with_what_became_of_them() -> None:
    story = poisoned_memory.tell()
    story.desks[0].propose(story.flows[0])
    page = page_of(story.again(), Role.AUDITOR)
    for flow in story.flows:
        assert str(flow.dfid) in page
        assert flow.context_ref[:8] in page
    assert "PENDING" in page
    assert "not marked" in page
    assert "Mark 2 flows" not in page
    assert "Mark 2 flows" in page_of(story.again(), Role.ADMIN)


def test_an_admin_marks_the_flows_once() -> None:
    story = poisoned_memory.tell()
    client = sign_in(Role.ADMIN, name="ada")
    path = f"/memory/{story.item.pk}/mark/"
    assert client.post(path, {"digest": story.item.digest}).status_code == 400
    said = {"digest": story.item.digest, "reason": poisoned_memory.MARKED}
    assert client.post(path, said | {"digest": "0" * 64}).status_code == 409
    assert not Review.objects.exists()
    answer = client.post(path, said, follow=True)
    assert "2 flows are marked for review" in answer.content.decode()
    assert "Mark" not in answer.content.decode().split("Blast radius")[1].split("Versions")[0]
    assert client.post(path, said).status_code == 302
    assert Review.objects.count() == 2
    ada = User.objects.get(username="ada")
    assert {row.actor for row in LedgerEntry.objects.filter(kind="review:requested")} == {f"user:{ada.pk}"}
    flow = text_of(client, f"/flows/{story.flows[0].dfid}/")
    assert "Needs review" in flow
    assert "Marked for review" in flow


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.SENIOR, Role.AUDITOR])
def test_nobody_else_marks(role: Role) -> None:
    story = poisoned_memory.tell()
    said = {"digest": story.item.digest, "reason": poisoned_memory.MARKED}
    assert sign_in(role).post(f"/memory/{story.item.pk}/mark/", said).status_code == 403
    assert not Review.objects.exists()


def test_an_operator_closes_the_review_of_a_marked_flow() -> None:
    story = poisoned_memory.tell_marked()
    review = Review.objects.get(flow_id=story.flows[0].dfid)
    client = sign_in(Role.OPERATOR, name="olivia")
    listed = text_of(client, "/reviews/")
    assert poisoned_memory.MARKED in listed
    assert "tips/acme@1" in listed
    page = text_of(client, f"/reviews/{review.pk}/")
    for words in ("tips/acme@1", "Did the memory affect this flow?", poisoned_memory.MARKED):
        assert words in page
    wrong = client.post(f"/reviews/{review.pk}/close/", {"result": "CONFIRMED"})
    assert wrong.status_code == 400
    said = {"result": "CONFIRMED", "note": "It bought because of the tip."}
    assert client.post(f"/reviews/{review.pk}/close/", said).status_code == 302
    assert "It bought because of the tip." in text_of(client, f"/reviews/{review.pk}/")
    assert "Confirmed" in page_of(story.again(), Role.AUDITOR)
    assert text_of(client, f"/reviews/alike/{review.pk}/")
    other = Review.objects.get(flow_id=story.flows[1].dfid)
    assert client.post("/reviews/alike/close/", {"id": str(other.pk), **said}).status_code == 400


def test_the_inbox_leads_to_the_item_and_to_the_review() -> None:
    story = poisoned_memory.tell_marked()
    waiting = poisoned_memory.write(poisoned_memory.desk("other", "WRITE"), key="b")
    page = text_of(sign_in(Role.ADMIN, Role.OPERATOR), "/inbox/")
    assert f"/memory/{waiting.pk}/" in page
    assert "flagged by tips/acme@1" in page
    assert story.item.pk


def test_an_owner_of_the_writer_cannot_release_and_reads_why() -> None:
    item = poisoned_memory.write(poisoned_memory.desk("web-reader", "WRITE"))
    client = sign_in(Role.ADMIN, name="ada")
    sign_in(Role.ADMIN, name="bob")
    Agent.objects.update(owner="ada")
    for path in ("/memory/", f"/memory/{item.pk}/"):
        page = text_of(client, path)
        assert "You own this agent: another admin must release" in page
        assert "disabled" in page
    said = {"digest": item.digest, "reason": "Mine."}
    assert client.post(f"/memory/{item.pk}/release/", said).status_code == 403


def test_an_item_that_differs_from_the_ledger_is_not_shown() -> None:
    item = poisoned_memory.write(poisoned_memory.desk("web-reader", "WRITE"))
    MemoryItem.objects.update(value=b'"harmless"')
    answer = sign_in(Role.AUDITOR).get(f"/memory/{item.pk}/")
    assert answer.status_code == 409
    assert b"memoryitem.value" in answer.content


def test_there_is_no_page_of_an_unknown_item() -> None:
    assert sign_in(Role.AUDITOR).get("/memory/999/").status_code == 404


@pytest.mark.parametrize("place", ["", "x-y", "9", "-1", "9" * 40, "9" * 40 + "-1"])
def test_a_place_of_another_form_is_the_newest(place: str) -> None:
    story = poisoned_memory.tell()
    assert str(story.flows[0].dfid) in page_of(story.again(), Role.AUDITOR, query=f"?before={place}")


def test_older_contexts_are_searched_by_a_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_reach, "SEARCHED", 1)
    story = poisoned_memory.tell()
    page = page_of(story.again(), Role.ADMIN)
    assert str(story.flows[0].dfid) not in page
    place = page.split("?before=")[1].split('"')[0]
    older = page_of(story.again(), Role.ADMIN, query=f"?before={place}")
    assert str(story.flows[0].dfid) in older
    said = {"digest": story.item.digest, "reason": "All.", "before": place}
    assert sign_in(Role.ADMIN, name="ada").post(f"/memory/{story.item.pk}/mark/", said).status_code == 302
    assert {row.flow_id for row in Review.objects.all()} == {story.flows[0].dfid}


def test_the_labels_of_its_writer_are_shown() -> None:
    writer = poisoned_memory.desk("web-reader", "WRITE")
    agent_labels.receive(
        agent=writer.agent, labels=["untrusted"], because=LabelSource.MESSAGE, source="talk-1"
    )
    item = poisoned_memory.write(writer, "plain", source="agent")
    page = page_of(item, Role.AUDITOR)
    assert "untrusted" in page
    assert "its readers have them from then on" in page
    MemoryItem.objects.update(labels=b"{")
    assert "unreadable" in page_of(item, Role.AUDITOR)
