"""Notes and moving claims on the pages: two people, without JavaScript, and what hostile text becomes."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from audit.access.roles import Role
from audit.models import LedgerEntry, Payload
from escalations.contracts import Action
from escalations.models import Escalation, Note
from escalations.services import claiming
from tests.support import factories, guard_rounds
from tests.web.test_pages import code_in, sign_in, text_of

pytestmark = pytest.mark.django_db
HOSTILE = "<script>alert(1)</script>\n\u202egnp.exe\u2066 @sam \"'><img src=x onerror=alert(2)>"
LIVE = {"HX-Request": "true"}


@pytest.fixture
def escalation() -> Escalation:
    return factories.desk().escalate()


@pytest.fixture
def olga() -> Client:
    return sign_in(Role.OPERATOR, name="olga")


@pytest.fixture
def sam() -> Client:
    return sign_in(Role.OPERATOR, name="sam")


def pages(escalation: Escalation) -> dict[str, str]:
    """The address of notes, and the page that shows them."""
    flow, agent = escalation.flow_id, escalation.agent_id
    return {
        f"/escalations/{escalation.pk}/notes/": f"/escalations/{escalation.pk}/",
        f"/notes/flow/{flow}/": f"/flows/{flow}/",
        f"/notes/agent/{agent}/": f"/agents/{agent}/",
    }


def post(client: Client, escalation: Escalation, act: str, **fields: Any) -> Any:
    return client.post(f"/escalations/{escalation.pk}/{act}/", fields)


def take_over(client: Client, escalation: Escalation, reason: str) -> Any:
    holder = str(User.objects.get(username="olga").pk)
    return post(client, escalation, "claim/take-over", holder=holder, takeover_reason=reason)


def test_a_note_is_on_the_page_of_what_it_is_about(escalation: Escalation, olga: Client, sam: Client) -> None:
    for address, page in pages(escalation).items():
        assert "not part of the evidence" in text_of(olga, page).lower()
        answer = olga.post(address, {"text": f"A note at {page}"})
        assert (answer.status_code, answer["Location"]) == (302, f"{page}#notes")
        assert f"A note at {page}" in text_of(sam, page)
        assert f"A note at {page}" in text_of(sam, address)
        live = text_of(sam, address, **LIVE)
        assert f"A note at {page}" in live
        assert "<form" not in live
        assert f'data-live-url="{address}"' in text_of(sam, page)
    assert Note.objects.count() == 3


def test_a_review_shows_the_notes_of_its_flow(olga: Client) -> None:
    guard_rounds.configure()
    review = guard_rounds.flagged(factories.desk())
    olga.post(f"/notes/flow/{review.flow_id}/", {"text": "Seen before."})
    assert "Seen before." in text_of(olga, f"/reviews/{review.pk}/")


def test_hostile_text_is_shown_as_text(escalation: Escalation, olga: Client) -> None:
    factories.user("sam")
    for address, page in pages(escalation).items():
        assert olga.post(address, {"text": HOSTILE}).status_code == 302
        text = olga.get(page).content.decode()
        assert code_in(text) == []
        assert "&lt;script&gt;alert(1)" in text
        assert not {"\u202e", "\u2066"} & set(text)
        assert '<a href="/people/"><bdi>@sam</bdi></a>' in text_of(olga, page)


@pytest.mark.parametrize("text", ["", "  \n", "x" * 2001])
def test_a_refused_note_comes_back_with_its_text(escalation: Escalation, olga: Client, text: str) -> None:
    for address in pages(escalation):
        answer = olga.post(address, {"text": text})
        assert answer.status_code == 422
        page = answer.content.decode()
        assert 'role="alert" id="note-problem"' in page
        assert 'aria-invalid="true" aria-describedby="note-problem"' in page
        assert f">{text}</textarea>" in page.replace("\n</textarea>", "</textarea>") or not text.strip()
        swapped = olga.post(address, {"text": text}, headers=LIVE)
        assert swapped.status_code == 200, "htmx inserts no error status"
        assert 'id="note-problem"' in swapped.content.decode()
    assert not Note.objects.exists()
    assert LedgerEntry.objects.filter(kind="request:refused").count() == 6


def test_htmx_gets_the_part_with_the_note_and_an_empty_field(escalation: Escalation, olga: Client) -> None:
    answer = olga.post(f"/escalations/{escalation.pk}/notes/", {"text": "By script."}, headers=LIVE)
    page = answer.content.decode()
    assert page.strip().startswith('<section class="sec" id="notes"')
    assert "By script." in page
    assert "></textarea>" in page


def test_an_auditor_reads_and_writes_no_notes(escalation: Escalation, olga: Client) -> None:
    auditor = sign_in(Role.AUDITOR, name="aud")
    for address, page in pages(escalation).items():
        olga.post(address, {"text": "For all to read."})
        text = text_of(auditor, page)
        assert "For all to read." in text
        assert f'action="{address}"' not in text
        assert auditor.post(address, {"text": "No."}).status_code == 403
    assert Note.objects.count() == 3


def test_a_form_of_another_site_writes_nothing(escalation: Escalation, olga: Client) -> None:
    stranger = Client(enforce_csrf_checks=True)
    stranger.cookies = olga.cookies
    for address in pages(escalation):
        assert stranger.post(address, {"text": "No."}).status_code == 403
    assert not Note.objects.exists()


def test_a_tampered_and_an_erased_note_say_so(escalation: Escalation, olga: Client) -> None:
    address, page = next(iter(pages(escalation).items()))
    olga.post(address, {"text": "Wait for Monday."})
    assert "Wait for Monday." in text_of(olga, page)
    Payload.objects.filter(commitment=Note.objects.get().commitment).update(content=b'"Approve it."')
    text = text_of(olga, page)
    assert "Approve it." not in text
    assert "This note does not match the ledger" in text


def test_what_is_not_there_has_no_notes(olga: Client) -> None:
    unknown = "019aa000-0000-7000-8000-000000000000"
    for address in (f"/escalations/{unknown}/notes/", f"/notes/flow/{unknown}/", "/notes/agent/nobody/"):
        assert olga.get(address).status_code == 404
        assert olga.post(address, {"text": "x"}).status_code == 404


def test_a_claim_and_its_end_are_in_the_live_parts_of_others(
    escalation: Escalation, olga: Client, sam: Client
) -> None:
    """What an open page asks for at a hint: the claim's region, and the rows of the queue."""
    part = f"/escalations/{escalation.pk}/questions/?part=claim"
    assert f'action="/escalations/{escalation.pk}/claim/"' in text_of(sam, part, **LIVE)
    post(olga, escalation, "claim")
    until = Escalation.objects.get().claimed_until
    assert until is not None
    text = text_of(sam, part, **LIVE)
    assert "Claimed by olga" in text
    assert f'datetime="{until.isoformat()}"' in text
    assert "olga" in text_of(sam, "/escalations/", **LIVE)
    post(olga, escalation, "release")
    assert "olga" not in text_of(sam, part, **LIVE)
    assert "olga" not in text_of(sam, "/escalations/", **LIVE)


def test_a_takeover_is_told_to_the_former_holder(escalation: Escalation, olga: Client, sam: Client) -> None:
    post(olga, escalation, "claim")
    assert "/claim/take-over/" in text_of(sam, f"/escalations/{escalation.pk}/")
    assert take_over(sam, escalation, "I have the customer on the phone").status_code == 302
    told = text_of(olga, f"/escalations/{escalation.pk}/claim/move/", **LIVE)
    assert "<b><bdi>sam</bdi></b> took this over from <b><bdi>you</bdi></b>" in told
    assert "I have the customer on the phone" in told
    assert "I have the customer on the phone" in text_of(olga, f"/escalations/{escalation.pk}/")
    assert "<bdi>You</bdi>" in text_of(sam, f"/escalations/{escalation.pk}/claim/move/")
    assert olga.post(f"/escalations/{escalation.pk}/claim/renew/").status_code == 409
    assert sam.post(f"/escalations/{escalation.pk}/claim/renew/").status_code == 204
    factories.decide(escalation, User.objects.get(username="sam"), Action.ABORT)
    assert text_of(olga, f"/escalations/{escalation.pk}/claim/move/").strip() == ""


def test_a_takeover_without_a_reason_keeps_what_was_entered(
    escalation: Escalation, olga: Client, sam: Client
) -> None:
    post(olga, escalation, "claim")
    answer = take_over(sam, escalation, " ")
    assert answer.status_code == 422
    assert "Write why you take this over." in answer.content.decode()
    answer = take_over(sam, escalation, "y" * 2001)
    assert f"{'y' * 2001}</textarea>" in answer.content.decode()
    assert Escalation.objects.get().claimed_by == User.objects.get(username="olga")


def test_a_handover_is_at_the_top_of_the_item_and_in_mine(
    escalation: Escalation, olga: Client, sam: Client
) -> None:
    factories.user("boss", "operator", groups=("trading-desk",))
    post(olga, escalation, "claim")
    page = text_of(olga, f"/escalations/{escalation.pk}/")
    assert '<option value="sam">sam</option>' in page
    assert '<option value="olga">' not in page
    refused = post(olga, escalation, "claim/hand-over", receiver="boss", handover_note="Please.")
    assert refused.status_code == 422
    assert "boss is bound to this agent" in refused.content.decode()
    post(olga, escalation, "claim/hand-over", receiver="sam", handover_note="I wait for the broker.")
    top = text_of(sam, f"/escalations/{escalation.pk}/").split('class="case"')[0]
    assert "<b><bdi>olga</bdi></b> handed this over to <b><bdi>you</bdi></b>" in top
    assert "I wait for the broker." in top
    assert str(escalation.pk) in text_of(sam, "/escalations/?mine=1")


def test_a_move_matters_to_others_only_while_it_is_the_claim(
    escalation: Escalation, olga: Client, sam: Client
) -> None:
    mara = sign_in(Role.OPERATOR, name="mara")
    post(olga, escalation, "claim")
    take_over(sam, escalation, "I know this agent")
    address = f"/escalations/{escalation.pk}/claim/move/"
    assert "I know this agent" in text_of(mara, address)
    post(sam, escalation, "release")
    assert text_of(mara, address).strip() == ""
    assert "I know this agent" in text_of(olga, address), "who lost the claim still learns why"
    assert "I know this agent" in text_of(mara, f"/escalations/{escalation.pk}/"), "it stays among the notes"


def test_the_moves_of_a_claim_need_the_role_that_decides(escalation: Escalation, olga: Client) -> None:
    post(olga, escalation, "claim")
    admin = sign_in(Role.ADMIN, name="ada")
    for act in ("claim/take-over", "claim/hand-over", "claim/renew"):
        assert post(admin, escalation, act, takeover_reason="x", handover_note="x").status_code == 403
        assert olga.get(f"/escalations/{escalation.pk}/{act}/").status_code == 405
    page = text_of(admin, f"/escalations/{escalation.pk}/")
    assert "Claimed by olga" in page
    assert "/claim/take-over/" not in page
    assert claiming.renew(
        tenant="default", escalation_id=escalation.pk, user=User.objects.get(username="olga")
    )
