"""The pages of decision records: the search, one record, and the reports."""

import re

import pytest
from django.test import Client
from django.urls import reverse

from audit.access.roles import Role
from audit.models import DecisionRecord, LedgerEntry
from audit.records import fold, queries
from audit.records.statuses import Status
from runtime.flows.models import Proposal
from runtime.flows.views import record_presenters
from runtime.maintenance.services import payloads
from tests.support import api_client, ledger_tampering, markup, recorded_flows, worlds
from tests.support.recorded_flows import RULE, TRACE, Recorded
from tests.web.test_pages import code_in, sign_in, text_of

world = worlds.shared(recorded_flows.build)
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("world")]
HOSTILE = "</bdi><b>AAPL"
HIGH_VALUE = "/records/reports/high_value_outcomes/?decision_key=ADJUST_POSITION&param=notional_cents&over="
REPORTS = [
    "/records/reports/high_value_outcomes/",
    "/records/reports/most_denials/",
    "/records/reports/replay_health/",
]


def rows(world: Recorded, page: str) -> list[str]:
    """The names of the records on a page."""
    known = world.names()
    return [known[record_id] for record_id in re.findall(r'data-row="(dr_[^"]+)"', page)]


def record_page(world: Recorded, name: str) -> str:
    return reverse("record", args=[world.row(name).record_id])


def test_every_badge_of_the_list_says_something(world: Recorded) -> None:
    page = text_of(sign_in(Role.AUDITOR), "/records/")
    assert page.count('class="badge') > 1
    assert not re.findall(r'<span class="badge[^>]*>\s*</span>', page)


@pytest.mark.parametrize("role", list(Role))
def test_each_role_reads_every_page(world: Recorded, role: Role) -> None:
    client = sign_in(role)
    for path in ("/records/", record_page(world, "overridden 2"), *REPORTS):
        page = text_of(client, path)
        assert code_in(page) == [], path
        assert 'aria-current="page"' in page, path


def test_strangers_sign_in_and_people_without_a_role_are_refused(world: Recorded) -> None:
    for path in ("/records/", record_page(world, "accepted 1"), *REPORTS):
        assert Client().get(path)["Location"].startswith("/accounts/login/?next=")
        nobody = sign_in(name=f"nobody{len(path)}")
        assert nobody.get(path).status_code == 403


def test_pages_only_read(world: Recorded) -> None:
    client = sign_in(Role.ADMIN)
    for path in ("/records/", record_page(world, "accepted 1"), *REPORTS):
        assert client.post(path).status_code == 405


def test_lists_records_newest_first_with_what_they_say(world: Recorded) -> None:
    page = text_of(sign_in(Role.AUDITOR), "/records/")
    assert rows(world, page) == [
        "another agent's 1",
        "cancelled 1",
        "aborted 2",
        "aborted 1",
        "overridden 2",
        "overridden 1",
        "rejected 1",
        "accepted 1",
    ]
    overridden = next(line for line in page.splitlines() if world.row("overridden 2").record_id in line)
    for words in ("ADJUST_POSITION@1.2.0", "In flight", "trader", "symbol:AAPL", "One person", "olivia"):
        assert words in overridden
    cancelled = next(line for line in page.splitlines() if world.row("cancelled 1").record_id in line)
    assert "nothing proposed" in cancelled


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("subject=symbol:MSFT", ["rejected 1"]),
        ("approver=Olivia", ["overridden 2"]),
        ("status=REJECTED&approval_mode=person", ["aborted 2"]),
        (f"policy_decision={RULE}&agent_id=trader", ["rejected 1"]),
        (f"trace_id={TRACE}", ["accepted 1"]),
        ("decision_key=ADJUST_POSITION&status=IN_FLIGHT&agent_id=other-trader", ["another agent's 1"]),
        ("from=2026-01-01&to=2026-01-02", []),
        ("from=2026-01-01T10:00&subject=symbol:MSFT", ["rejected 1"]),
    ],
)
def test_filters_live_in_the_address_and_in_the_form(world: Recorded, asked: str, found: list[str]) -> None:
    page = text_of(sign_in(Role.AUDITOR), f"/records/?{asked}")
    assert rows(world, page) == found
    assert ("No records match these filters" in page) == (not found)
    assert ">Clear</a>" in page
    for pair in asked.split("&"):
        name, _, value = pair.partition("=")
        assert f'value="{value}" selected' in page or re.search(rf'name="{name}"[^>]* value="{value}"', page)


def test_pages_meet_without_gap_or_repeat(world: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.flows.views.record_pages.PAGE", 3)
    client, path, seen = sign_in(Role.AUDITOR), "/records/?agent_id=trader", []
    while path:
        page = text_of(client, path)
        seen += rows(world, page)
        following = re.search(r'rel="next" href="([^"]+)"', page)
        path = f"/records/{following[1].replace('&amp;', '&')}" if following else ""
    assert sorted(seen) == sorted(set(world.names().values()) - {"another agent's 1"})
    assert len(seen) == 7


def test_what_cannot_be_read_is_named_and_finds_nothing(world: Recorded) -> None:
    client = sign_in(Role.AUDITOR)
    for asked, words in (
        ("from=yesterday", "yesterday is neither a date"),
        ("to=2026-13-01", "2026-13-01 is neither a date"),
        ("status=DONE", "DONE is not a value of status"),
        ("approval_mode=x", "x is not a value of approval_mode"),
        ("dfid=x", "x is not the id of a flow"),
        ("subject=a%07b", "subject cannot be searched for"),
    ):
        page = text_of(client, f"/records/?{asked}")
        assert words in page, asked
        assert "Nothing was searched." in page
        assert rows(world, page) == []
    assert client.get("/records/?after=x&more=1").status_code == 200


def test_a_flow_links_to_its_records(world: Recorded) -> None:
    client, dfid = sign_in(Role.OPERATOR), world.flows["aborted"]
    page = text_of(client, reverse("flow", args=[dfid]))
    link = re.search(r'href="(/records/[^"]*)"[^>]*>.{0,200}?Decision records', page)
    assert link is not None
    assert rows(world, text_of(client, link[1])) == ["aborted 2", "aborted 1"]


def test_one_record_says_what_was_decided_by_whom_and_on_what(world: Recorded) -> None:
    page = text_of(sign_in(Role.AUDITOR), record_page(world, "overridden 2"))
    words = markup.words(page)
    for found in (
        "Matches its ledger entry",
        "Signature verified",
        "Written at a checkpoint",
        "olivia",
        "OVERRIDE",
        "RISK_LIMIT_EXCEEDED",
        "Require approval",
        "Allow",
        "symbol:AAPL",
        "max_notional",
        "manifest:trader@1.4.0",
        "No target was called",
        "Only the record of the end is scored",
    ):
        assert found in words, found
    row = world.row("overridden 2")
    escalation = LedgerEntry.objects.get(stream=str(row.dfid), kind="escalation:opened").payload
    for link in (
        f"/flows/{row.dfid}/",
        f"/records/?dfid={row.dfid}",
        f"/api/v1/audit/records/{row.record_id}",
        f"/api/v1/audit/records/{row.record_id}/dsse",
        f"/flows/{row.dfid}/evidence.zip",
        f"/escalations/{escalation['escalation_id']}/",
        f"/flows/{row.dfid}/contexts/",
        "/agents/trader/",
        "/kinds/ADJUST_POSITION/",
    ):
        assert f'href="{link}' in page, link
    sections = re.findall(r'<h2 id="record-[a-z]+">([^<]+)</h2>', page)
    assert sections == [
        "Identity",
        "Actor",
        "Subject",
        "Outputs",
        "Policy decisions",
        "Approvals",
        "Tool lineage",
        "Inputs",
        "Evidence",
        "Controls",
        "Scores",
        "Budget used",
        "Lineage",
        "Trace and replay",
        "Seal",
    ]


def test_the_rules_in_force_are_named_by_their_hash(world: Recorded) -> None:
    """The first ten characters of `bundle@sha256:...` would be those of every record."""
    row = world.row("overridden 2")
    verdict = LedgerEntry.objects.filter(stream=str(row.dfid), kind="verdict:given").latest("seq").payload
    page = text_of(sign_in(Role.AUDITOR), record_page(world, "overridden 2"))
    lineage = page[page.index('id="record-lineage"') : page.index('id="record-trace"')]
    assert f'data-copy="{verdict["policy_bundle_hash"]}"' in lineage


def test_only_a_later_record_is_made_of_the_one_before(world: Recorded) -> None:
    client = sign_in(Role.AUDITOR)
    later = "and of the record before them"
    for row in DecisionRecord.objects.filter(record_id__in=world.names()):
        is_first = bytes(row.prev_hash) == bytes(32)
        assert (later in text_of(client, reverse("record", args=[row.record_id]))) is not is_first


def test_every_record_has_a_page(world: Recorded) -> None:
    client = sign_in(Role.AUDITOR)
    for record_id in world.names():
        page = text_of(client, reverse("record", args=[record_id]))
        assert "Signature verified" in page
    assert "nothing was proposed" in text_of(client, record_page(world, "cancelled 1"))


def test_what_is_unknown_or_of_another_tenant_is_not_there(world: Recorded) -> None:
    client = sign_in(Role.AUDITOR)
    other = DecisionRecord.objects.get(tenant=recorded_flows.OTHER_TENANT)
    for path in (
        "/records/dr_1/",
        "/records/reports/",
        "/records/reports/all/",
        reverse("record", args=[other.record_id]),
    ):
        assert client.get(path).status_code == 404, path
    assert other.record_id not in text_of(client, "/records/")
    assert other.record_id not in text_of(client, f"/records/?dfid={other.dfid}")


def rewrite(row: DecisionRecord, body: bytes) -> None:
    ledger_tampering.quietly("UPDATE audit_decisionrecord SET body = %s WHERE id = %s", [body, row.pk])


def test_a_record_that_was_rewritten_is_named_and_not_shown(world: Recorded) -> None:
    row, client = world.row("aborted 2"), sign_in(Role.AUDITOR)
    rewrite(row, bytes(row.body).replace(b'"ABORT"', b'"RESUME"'))
    page = text_of(client, f"/records/?dfid={row.dfid}")
    line = next(line for line in page.splitlines() if row.record_id in line)
    assert queries.DIFFERENT in line
    assert "otto" not in line
    answer = client.get(reverse("record", args=[row.record_id]))
    assert answer.status_code == 409
    assert b"RESUME" not in answer.content
    assert b"This row does not match the ledger." in answer.content
    assert row.record_id.encode() in answer.content


def test_a_signature_by_another_key_is_told(world: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    client, path = sign_in(Role.AUDITOR), record_page(world, "accepted 1")
    for verified, words in ((False, "Signature is wrong"), (None, "Key not known")):
        monkeypatch.setattr("audit.sealing.keys.Keyring.verify", lambda *args, given=verified, **named: given)
        page = text_of(client, path)
        assert words in page
        assert "Signature verified" not in page


def test_a_record_that_may_repeat_erased_words_is_not_shown(world: Recorded) -> None:
    row, client = world.row("accepted 1"), sign_in(Role.AUDITOR)
    said = LedgerEntry.objects.get(stream=str(row.dfid), kind="proposal:submitted").payload
    payloads.erase(tenant="default", commitment=said["params_commitment"], reason="asked", actor="user:1")
    page = text_of(client, f"/records/?dfid={row.dfid}")
    assert queries.ERASED in page
    assert "symbol:AAPL" not in page
    assert "does not match the ledger" not in page
    page = text_of(client, reverse("record", args=[row.record_id]))
    assert "Words of this flow were erased" in page
    assert "symbol:AAPL" not in page


def test_what_an_agent_wrote_stays_text(world: Recorded) -> None:
    world = Recorded({"hostile": recorded_flows.propose(api_client.session(), symbol=HOSTILE)})
    client = sign_in(Role.AUDITOR)
    for path in ("/records/", record_page(world, "hostile 1"), f"{HIGH_VALUE}0"):
        page = text_of(client, path)
        assert HOSTILE not in page
        assert code_in(page) == []
    assert "&lt;b&gt;AAPL" in text_of(client, "/records/")
    assert rows(world, text_of(client, "/records/?subject=symbol:%3C/bdi%3E%3Cb%3EAAPL")) == ["hostile 1"]


def test_the_report_of_amounts_says_what_it_needs_and_what_it_found(world: Recorded) -> None:
    client = sign_in(Role.AUDITOR)
    page = text_of(client, REPORTS[0])
    assert "Nothing was read." not in page
    assert "<table" not in page
    page = text_of(client, f"{HIGH_VALUE}100000")
    for words in ("200,000", "150,000", "olivia", "otto", "Rejected", "In flight"):
        assert words in page
    assert "No amount above" in text_of(client, f"{HIGH_VALUE}900000")
    Proposal.objects.filter(flow=world.flows["accepted"]).update(body=b"{}")
    page = text_of(client, f"{HIGH_VALUE}900000")
    assert "the stored bytes do not match the ledger" in page
    for asked, words in (
        (f"{HIGH_VALUE}much", "much is not a number"),
        (HIGH_VALUE, "An empty field is not a number"),
        (f"{REPORTS[0]}?decision_key=&param=x&over=1", "decision_key is missing"),
        (f"{HIGH_VALUE}1&from=x", "x is neither a date"),
    ):
        assert words in text_of(client, asked)


def test_the_report_of_denials_counts_rules(world: Recorded) -> None:
    client = sign_in(Role.AUDITOR)
    page = text_of(client, REPORTS[1])
    assert RULE in page
    link = re.search(r'href="(/records/\?status=REJECTED[^"]*)"', page)
    assert link is not None
    assert rows(world, text_of(client, link[1].replace("&amp;", "&"))) == ["rejected 1"]
    assert "People aborted 1 flow" in page
    for days in ("0", "367", "x", "-1"):
        assert "is not a number of days from 1 to 366" in text_of(client, f"{REPORTS[1]}?days={days}")


def test_the_report_of_replays_waits_until_it_is_asked(
    world: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = sign_in(Role.AUDITOR)
    assert "<table" not in text_of(client, REPORTS[2])
    page = text_of(client, f"{REPORTS[2]}?from=&to=")
    assert "ADJUST_POSITION@1.2.0" in page
    assert "100%" in page
    assert "There are more" not in page
    monkeypatch.setattr("runtime.proposals.views.record_report_page.MOST_REPLAYED", 1)
    assert "There are more" in text_of(client, f"{REPORTS[2]}?from=&to=")
    assert "No records in this period" in text_of(client, f"{REPORTS[2]}?to=2026-01-01")
    assert "x is neither a date" in text_of(client, f"{REPORTS[2]}?to=x")


def test_a_report_names_the_records_that_it_did_not_use(world: Recorded) -> None:
    row = world.row("rejected 1")
    rewrite(row, b"{}")
    page = text_of(sign_in(Role.AUDITOR), REPORTS[1])
    assert row.record_id in page
    assert queries.DIFFERENT in page
    assert RULE not in page


def test_every_status_mode_and_verdict_has_words() -> None:
    assert set(record_presenters.STATUSES) == set(Status)
    assert tuple(record_presenters.MODES) == fold.MODES
    assert set(record_presenters.VERDICTS) == set(fold.DECISIONS.values())
    assert record_presenters.mode("another") == "another"


def test_references_lead_to_pages_where_there_are_any() -> None:
    dfid, other = "0192f0c0-0000-7000-8000-000000000001", "0192f0c0-0000-7000-8000-000000000002"
    for text, what, digest, url in (
        ("context:ab", "Context", "ab", f"/flows/{dfid}/contexts/ab/"),
        (f"evidence:{other}/2#sha256:cd", "Evidence", "cd", f"/escalations/{other}/"),
        ("evidence:x/2#sha256:cd", "Evidence", "cd", ""),
        (f"verdict:{other}#sha256:ef", "Verdict", "ef", f"/flows/{dfid}/"),
        ("receipt:ab", "Receipt", "ab", ""),
    ):
        found = record_presenters.reference(dfid, text)
        assert (found.what, found.digest, found.url) == (what, digest, url)


def test_an_empty_console_has_no_records() -> None:
    ledger_tampering.quietly("DELETE FROM audit_decisionrecord")
    page = text_of(sign_in(Role.AUDITOR), "/records/")
    assert "No records yet" in page
    assert "(0)" not in page
