"""One ledger entry under its own address: odd names, its checks, and entries that are no evidence."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.urls import Resolver404, resolve, reverse

from audit import actors, canonical, chain, events, ledger
from audit.access.roles import Role
from audit.models import LedgerEntry
from runtime.core import clock
from runtime.core.views.stream_names import StreamConverter, entry_url
from runtime.maintenance.services import payloads, sealing
from tests.support import ledger_tampering, recorded_flows, worlds
from tests.support.recorded_flows import Recorded
from tests.web.test_pages import code_in, sign_in, text_of


def build() -> Recorded:
    made = recorded_flows.build()
    sealing.seal_now()
    return made


world = worlds.shared(build)
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("world")]
ODD = [
    "agent:a",
    "agent:a/b",
    "agent:../../x",
    "..",
    ".",
    "feed:100 %",
    "feed:%2F%252F~2F",
    "~",
    "agent:a?b#c",
    "agent:ä\u202eb",
    "agent:a\\b",
    "user:1",
    "target:pay;v=1&x",
    "/",
    "a\nb",
]


@pytest.mark.parametrize("stream", ODD)
def test_every_name_of_a_stream_has_an_address_of_one_part(stream: str) -> None:
    address = reverse("entry", args=[stream, 7])
    part = address.removeprefix("/ledger/entries/").removesuffix("/7/")
    assert "/" not in part
    assert part not in {".", "..", "%2e", "%2e%2e"}
    with transaction.atomic():
        ledger.append_to(
            tenant="default",
            stream=stream,
            actor=actors.SYSTEM,
            at=clock.now(),
            events=[events.SystemResumed()],
        )
    page = sign_in(Role.AUDITOR).get(address.replace("/7/", "/1/"))
    assert page.status_code == 200, address
    assert page.context["entry"].stream == stream


def test_an_address_that_no_name_makes_is_no_page() -> None:
    for part in ("~2f", "~41", "a~", "~~"):
        with pytest.raises(ValueError, match=r"."):
            StreamConverter().to_python(part)
        with pytest.raises(Resolver404):
            resolve(f"/ledger/entries/{part}/1/")
    assert entry_url("agent:a", "x") == ""
    client = sign_in(Role.AUDITOR)
    for path in ("agent:a/0/", f"agent:a/{2**64}/", "agent:a%00b/1/", "agent:none/1/"):
        assert client.get(f"/ledger/entries/{path}").status_code == 404


@pytest.mark.parametrize("role", list(Role))
def test_shows_an_entry_with_what_was_checked(world: Recorded, role: Role) -> None:
    dfid = world.flows["overridden"]
    row = LedgerEntry.objects.get(stream=dfid, kind=events.Kind.ESCALATION_OPENED)
    page = text_of(sign_in(role), entry_url(row.stream, row.seq))
    assert code_in(page) == []
    for words in (
        "Escalation opened",
        bytes(row.hash).hex(),
        bytes(row.prev_hash).hex(),
        "evidence_hash",
        "Stored, matches",
        f"/escalations/{row.payload['escalation_id']}/",
        entry_url(row.stream, row.seq - 1),
        entry_url(row.stream, row.seq + 1),
        "Sealed since",
    ):
        assert words in page, words
    assert page.count("Matches") == 6  # five checks, and all of them together
    assert canonical.decode(bytes(row.body))["at"] in page


def test_strangers_sign_in_and_a_page_only_reads(world: Recorded) -> None:
    path = entry_url(world.flows["accepted"], 1)
    assert Client().get(path)["Location"].startswith("/accounts/login/?next=")
    assert sign_in(name="nobody").get(path).status_code == 403
    assert sign_in(Role.ADMIN).post(path).status_code == 405


def test_timeline_ledger_and_record_lead_to_it(world: Recorded) -> None:
    client, dfid = sign_in(Role.AUDITOR), world.flows["accepted"]
    assert f'href="{entry_url(dfid, 1)}"' in text_of(client, f"/flows/{dfid}/")
    assert f'href="{entry_url(dfid, 1)}"' in text_of(client, f"/ledger/?stream={dfid}")
    record = world.row("accepted 1")
    assert f'href="{entry_url(dfid, record.seq + 1)}"' in text_of(client, f"/records/{record.record_id}/")


def test_the_first_and_the_last_of_a_stream_have_one_neighbour(world: Recorded) -> None:
    client, dfid = sign_in(Role.AUDITOR), world.flows["cancelled"]
    last = LedgerEntry.objects.filter(stream=dfid).latest("seq").seq
    first = text_of(client, entry_url(dfid, 1))
    assert 'rel="prev"' not in first
    assert 'rel="next"' in first
    end = text_of(client, entry_url(dfid, last))
    assert 'rel="prev"' in end
    assert 'rel="next"' not in end


def test_an_entry_that_waits_for_the_tree_says_so(world: Recorded) -> None:
    with transaction.atomic():
        ledger.append_to(
            tenant="default", stream="system", actor="system", at=clock.now(), events=[events.SystemResumed()]
        )
    last = LedgerEntry.objects.filter(stream="system").latest("seq")
    page = text_of(sign_in(Role.AUDITOR), entry_url("system", last.seq))
    assert "It waits for the tree" in page
    assert "Not known yet" in page


@pytest.fixture
def undone() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def change(dfid: object, seq: int, **columns: Any) -> None:
    changes = ", ".join(f"{name} = %s" for name in columns)
    sql = f"UPDATE audit_ledgerentry SET {changes} WHERE stream = %s AND seq = %s"  # noqa: S608
    ledger_tampering.quietly(sql, [*columns.values(), str(dfid), seq])


def forged(dfid: object, seq: int) -> tuple[LedgerEntry, bytes]:
    row = LedgerEntry.objects.get(stream=str(dfid), seq=seq)
    return row, bytes(row.body).replace(b'"payload":{', b'"payload":{"added":"forged words",')


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("body", {"HASH"}),
        ("body and hash", {"TREE"}),
        ("kind", {"COLUMNS"}),
        ("actor", {"COLUMNS"}),
        ("previous hash", {"HASH", "PREVIOUS"}),
        ("the entry before", {"PREVIOUS"}),
        ("leaf", {"TREE"}),
        ("checkpoint", {"CHECKPOINT"}),
        ("signature", {"CHECKPOINT"}),
    ],
)
def test_an_entry_that_does_not_match_is_no_evidence(
    world: Recorded, undone: None, name: str, wrong: set[str]
) -> None:
    dfid, seq = world.flows["accepted"], 2
    row, body = forged(dfid, seq)
    match name:
        case "body":
            change(dfid, seq, body=body)
        case "body and hash":
            change(dfid, seq, body=body, hash=chain.entry_hash(bytes(row.prev_hash), body))
        case "kind":
            change(dfid, seq, kind="flow:opened")
        case "actor":
            change(dfid, seq, actor="user:1")
        case "previous hash":
            change(dfid, seq, prev_hash=b"\x01" * 32)
        case "the entry before":
            change(dfid, seq - 1, hash=b"\x02" * 32)
        case "leaf":
            ledger_tampering.quietly("DELETE FROM audit_leaf WHERE entry_id = %s", [row.pk])
        case "checkpoint":
            ledger_tampering.quietly("UPDATE audit_checkpoint SET size = size + 1")
        case "signature":
            sql = "UPDATE audit_ledgerentry SET body = %s WHERE kind = 'signing_key:begun'"
            ledger_tampering.quietly(sql, [b"{}"])
    answer = sign_in(Role.AUDITOR).get(entry_url(dfid, seq))
    assert answer.status_code == 409
    found = {check.part for check in answer.context["entry"].checks if check.is_right is False}
    assert found == wrong
    page = answer.content.decode()
    assert "This entry does not match the ledger" in page
    for words in ("Canonical JSON", "What it commits to", "context_ref", "forged words"):
        assert words not in page


def test_erased_words_are_named_as_erased(world: Recorded, undone: None) -> None:
    dfid = world.flows["another agent's"]
    row = LedgerEntry.objects.get(stream=dfid, kind=events.Kind.FLOW_OPENED)
    payloads.erase(
        tenant="default", commitment=row.payload["trigger_commitment"], reason="asked", actor="user:1"
    )
    page = text_of(sign_in(Role.AUDITOR), entry_url(dfid, 1))
    assert "Erased" in page
    assert "trigger_commitment" in page
