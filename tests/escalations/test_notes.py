"""Notes: recorded with a commitment to their text, shown only as recorded, erased without a copy."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from audit import actors, canonical
from audit.models import LedgerEntry, Payload
from audit.verification import findings
from escalations import note_list, note_text
from escalations.contracts import Action, NotePurpose
from escalations.models import Escalation, Note, NoteMention
from escalations.note_text import Piece
from escalations.services import notes
from runtime.contracts.problem import Problem
from runtime.core import clock
from runtime.maintenance.services import payloads
from tests.support import decision_rows, factories

pytestmark = pytest.mark.django_db
TEXT = "The limit of AAPL is being raised, see ticket 12."


@pytest.fixture
def escalation(desk: factories.Desk) -> Escalation:
    return desk.escalate()


def write(escalation: Escalation, author: User, text: str = TEXT) -> Problem | None:
    return notes.write_on_escalation(tenant="default", escalation_id=escalation.pk, author=author, text=text)


def shown(escalation: Escalation) -> list[note_list.NoteShown]:
    return list(note_list.list_of_stream(tenant="default", stream=str(escalation.flow_id)).notes)


def words(note: note_list.NoteShown) -> str:
    return "".join(piece.text for piece in note.words)


def unlike() -> list[str]:
    """What verification finds, without the people of these tests, whom nothing records."""
    found = [item.detail for item in findings.verify_all().findings]
    return [detail for detail in found if not detail.startswith("no entry records the user ")]


def test_a_note_is_recorded_beside_what_it_is_about(escalation: Escalation, olivia: User) -> None:
    assert write(escalation, olivia) is None
    assert decision_rows.recorded(escalation)[-1] == ("note:written", f"user:{olivia.pk}")
    payload = decision_rows.last_payload(escalation)
    assert payload["escalation_id"] == str(escalation.pk)
    assert (
        canonical.decode(bytes(Payload.objects.get(commitment=payload["text_commitment"]).body or b""))
        == TEXT
    )
    (note,) = shown(escalation)
    assert (note.author, note.escalation_id, words(note)) == ("olivia", escalation.pk, TEXT)
    assert (Escalation.objects.get().version, Escalation.objects.get().evidence_hash) == (
        escalation.version,
        escalation.evidence_hash,
    )
    assert unlike() == []


def test_notes_of_a_flow_of_an_agent_and_of_a_shift_have_their_streams(
    desk: factories.Desk, olivia: User
) -> None:
    flow = desk.open()
    known: dict[str, Any] = {"tenant": "default", "author": olivia, "text": TEXT}
    assert notes.write_on_flow(dfid=flow.dfid, **known) is None
    assert notes.write_on_agent(agent_id="trader", **known) is None
    assert notes.hand_over_shift(**known) is None
    for stream, purpose in (
        (str(flow.dfid), NotePurpose.NOTE),
        (actors.agent("trader"), NotePurpose.NOTE),
        (actors.SYSTEM, NotePurpose.SHIFT),
    ):
        (note,) = note_list.list_of_stream(tenant="default", stream=stream).notes
        assert (note.purpose, words(note), note.is_untrusted) == (purpose, TEXT, False)
    assert unlike() == []


def test_what_is_not_there_is_not_found(escalation: Escalation, olivia: User) -> None:
    known: dict[str, Any] = {"author": olivia, "text": TEXT}
    answers = [
        notes.write_on_flow(tenant="other", dfid=escalation.flow_id, **known),
        notes.write_on_flow(tenant="default", dfid=uuid4(), **known),
        notes.write_on_escalation(tenant="other", escalation_id=escalation.pk, **known),
        notes.write_on_agent(tenant="other", agent_id="trader", **known),
        notes.write_on_agent(tenant="default", agent_id="nobody", **known),
    ]
    assert [decision_rows.refused(answer)[0] for answer in answers] == [404] * 5
    assert not Note.objects.exists()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "NOTE_EMPTY"),
        ("\r\n \t", "NOTE_EMPTY"),
        ("x" * 2001, "NOTE_TOO_LONG"),
        ("a\x00b", "NOTE_TOO_LONG"),
    ],
)
def test_a_text_out_of_bounds_is_refused(escalation: Escalation, olivia: User, text: str, code: str) -> None:
    known: dict[str, Any] = {"tenant": "default", "author": olivia, "text": text}
    for answer in (
        write(escalation, olivia, text),
        notes.write_on_agent(agent_id="trader", **known),
        notes.hand_over_shift(**known),
    ):
        assert decision_rows.refused(answer) == (422, code)
    assert not Note.objects.exists()


def test_line_ends_count_once_and_the_longest_text_fits(escalation: Escalation, olivia: User) -> None:
    text = "\r\n".join(["x" * 99] * 20)
    assert len(text) > note_text.LONGEST
    assert write(escalation, olivia, text) is None
    assert words(shown(escalation)[0]) == text.replace("\r\n", "\n")


def test_mentions_are_people_who_exist_and_are_found_by_them(escalation: Escalation, olivia: User) -> None:
    sam, ann, since = factories.user("sam.b"), factories.user("ann"), clock.now() - timedelta(minutes=1)
    write(escalation, olivia, "@sam.b, look. (@ann) mail x@ann.org, @nobody and @ann again: @sam.b.")
    assert decision_rows.last_payload(escalation)["mentions"] == [f"user:{sam.pk}", f"user:{ann.pk}"]
    (note,) = note_list.list_mentions(tenant="default", user_pk=sam.pk, since=since, most=5)
    assert [piece.text for piece in note.words if piece.is_person] == ["@sam.b", "@ann", "@ann", "@sam.b"]
    assert note_list.list_mentions(tenant="default", user_pk=olivia.pk, since=since, most=5) == []
    late = clock.now() + timedelta(minutes=1)
    assert note_list.list_mentions(tenant="default", user_pk=sam.pk, since=late, most=5) == []


def test_names_are_taken_apart_without_losing_a_character() -> None:
    text = "@a@b x@c @d. @@e"
    assert note_text.names_in(text) == ["a", "d"]
    parts = list(note_text.pieces(text, {"d"}))
    assert parts == [Piece("@a@b x@c "), Piece("@d", is_person=True), Piece(". @@e")]
    many = " ".join(f"@p{number}" for number in range(50))
    assert len(note_text.names_in(many)) == note_text.MOST_MENTIONS


def test_an_erased_note_leaves_no_copy(escalation: Escalation, olivia: User) -> None:
    write(escalation, olivia)
    commitment = Note.objects.get().commitment
    assert payloads.erase(tenant="default", commitment=commitment, reason="asked", actor="system")
    (note,) = shown(escalation)
    assert (note.author, words(note), note.is_untrusted) == ("olivia", "", False)
    assert unlike() == []


TAMPERINGS: dict[str, Callable[[], Any]] = {
    "author": lambda: Note.objects.update(author=User.objects.get(username="sam")),
    "commitment": lambda: Note.objects.update(commitment="f" * 64),
    "escalation": lambda: Note.objects.update(escalation=None),
    "text": lambda: Payload.objects.filter(commitment=Note.objects.get().commitment).update(
        content=canonical.encode("Approve all of it.")
    ),
    "mention": lambda: NoteMention.objects.create(
        note=Note.objects.get(), user=User.objects.get(username="olivia")
    ),
    "no mention": lambda: NoteMention.objects.all().delete(),
    "row": lambda: (NoteMention.objects.all().delete(), Note.objects.all().delete()),
}


@pytest.mark.parametrize("what", TAMPERINGS)
def test_a_tampered_note_is_not_shown_and_is_found(escalation: Escalation, olivia: User, what: str) -> None:
    sam = factories.user("sam")
    write(escalation, olivia, "Wait for @sam.")
    TAMPERINGS[what]()
    (note,) = shown(escalation)
    assert note.is_untrusted
    assert words(note) == ""
    assert unlike()
    mentions = note_list.list_mentions(
        tenant="default", user_pk=sam.pk, since=clock.now() - timedelta(hours=1), most=5
    )
    assert all(note.is_untrusted for note in mentions)


def test_a_row_that_no_entry_records_is_not_shown_and_is_found(escalation: Escalation, olivia: User) -> None:
    Note.objects.create(
        purpose=NotePurpose.NOTE,
        flow=escalation.flow,
        author=olivia,
        commitment="a" * 64,
        written_at=clock.now(),
    )
    assert shown(escalation) == []
    assert [detail[:22] for detail in unlike()] == ["no entry records note "]


@pytest.mark.parametrize(
    "columns",
    [
        {"purpose": "NOTE"},
        {"purpose": "SHIFT", "of": "flow"},
        {"purpose": "TAKEOVER", "of": "flow"},
        {"purpose": "HANDOVER", "of": "agent", "addressee": True},
        {"purpose": "NOTE", "of": "agent", "addressee": True},
        {"purpose": "PRAISE"},
    ],
)
def test_the_database_holds_what_a_note_is_about(
    escalation: Escalation, olivia: User, columns: dict[str, Any]
) -> None:
    about = {"flow": escalation.flow, "agent": escalation.flow.agent}
    fields: dict[str, Any] = {name: about[name] for name in [columns.get("of", "")] if name}
    with pytest.raises(IntegrityError), transaction.atomic():
        Note.objects.create(
            purpose=columns["purpose"],
            author=olivia,
            addressee=olivia if columns.get("addressee") else None,
            commitment="a" * 64,
            written_at=clock.now(),
            **fields,
        )


def test_a_flow_that_has_ended_still_takes_notes(escalation: Escalation, olivia: User) -> None:
    factories.decide(escalation, olivia, Action.ABORT)
    ended = Escalation.objects.get().flow
    assert write(escalation, olivia, "It came again an hour later.") is None
    flow = Escalation.objects.get().flow
    assert (flow.state, flow.reason, flow.ended_at) == (ended.state, ended.reason, ended.ended_at)
    assert words(shown(escalation)[0]) == "It came again an hour later."
    assert unlike() == []


def test_only_the_newest_are_shown_and_more_is_said(escalation: Escalation, olivia: User) -> None:
    for number in range(3):
        write(escalation, olivia, f"note {number}")
    found = note_list.list_of_stream(tenant="default", stream=str(escalation.flow_id), most=2)
    assert [words(note) for note in found.notes] == ["note 2", "note 1"]
    assert found.more


def test_an_entry_that_cannot_be_read_is_left_out(escalation: Escalation, olivia: User) -> None:
    write(escalation, olivia)
    entry = LedgerEntry.objects.get(kind="note:written")
    entry.body = b"{}"
    assert note_list._shown("default", [entry]) == []
