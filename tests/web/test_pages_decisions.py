"""The page of decisions: each filter, what a file holds, what the ledger does not confirm, and the record."""

import base64
import csv
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from audit import canonical
from audit.access.roles import Role
from escalations.contracts import Action
from escalations.models import Decision, Escalation, Evidence
from escalations.views import decision_export, decision_list
from runtime.contracts.problem import Problem
from runtime.core import clock
from tests.support import factories, gate_cases, worlds
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
NOTICE = "This row does not match the ledger"
ROW = re.compile(r'data-row="([^"]+)"')


def build() -> dict[str, str]:
    """Two agents, two people, and a decision of each sort that needs no target."""
    trader, analyst = factories.desk(), factories.desk(agent_id="analyst")
    olga, sam = factories.user("olga"), factories.user("sam", "operator", "senior")
    # Only a tie to the agent makes a decision of somebody who is alone one of solo mode.
    alone = factories.person(olga, is_solo=True, groups=frozenset({"operator", "trading-desk"}))
    made: dict[str, tuple[factories.Desk, dict[str, Any], User, Action, dict[str, Any]]] = {
        "override": (trader, {}, olga, Action.OVERRIDE, {"justification": "The desk agreed at 100%."}),
        "modify": (analyst, {}, sam, Action.MODIFY, {"params": {**gate_cases.PARAMS, "quantity": 3}}),
        "abort": (trader, {"confidence": 0.1}, sam, Action.ABORT, {"justification": '=HYPERLINK("x")'}),
        "alone": (analyst, {}, olga, Action.ABORT, {"who": alone}),
    }
    ids = {}
    for name, (desk, changes, person, action, fields) in made.items():
        escalation = desk.escalate(**changes)
        answer = factories.decide(escalation, person, action, **fields)
        assert not isinstance(answer, Problem), answer
        ids[name] = str(escalation.pk)
    trader.escalate()  # open: nobody has decided it
    asked = analyst.escalate()
    factories.decide(asked, olga, Action.REQUEST_INFO, justification="Which signals?")
    return ids


scene = worlds.shared(build)


@pytest.fixture
def reader() -> Client:
    return sign_in(Role.AUDITOR, name="aud")


def listed(client: Client, query: str, scene: dict[str, str]) -> list[str]:
    """The names of the decisions that a page lists, in its order."""
    names = {pk: name for name, pk in scene.items()}
    return [names[pk] for pk in ROW.findall(text_of(client, f"/decisions/?{query}"))]


def day(offset: int) -> str:
    return f"{clock.now() + timedelta(days=offset):%Y-%m-%d}"


def test_every_decision_and_nothing_else_is_listed_newest_first(reader: Client, scene: Any) -> None:
    assert listed(reader, "", scene) == ["alone", "abort", "modify", "override"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("person=olga", ["alone", "override"]),
        ("person=OLGA", ["alone", "override"]),
        ("person=olg", []),
        ("action=ABORT", ["alone", "abort"]),
        ("action=override", ["override"]),
        ("agent=analyst", ["alone", "modify"]),
        ("kind=ADJUST_POSITION", ["alone", "abort", "modify", "override"]),
        ("kind=OTHER", []),
        ("rule=LOW_CONFIDENCE", ["abort"]),
        ("rule=RISK_LIMIT_EXCEEDED", ["alone", "abort", "modify", "override"]),
        ("rule=MAX_NOTIONAL", ["alone", "abort", "modify", "override"]),
        ("rule=other", []),
        ("q=desk+AGREED", ["override"]),
        ("q=100%25", ["override"]),
        ("q=1%25%25", []),
        ("person=sam&action=ABORT&agent=trader", ["abort"]),
    ],
)
def test_each_filter(reader: Client, scene: Any, query: str, expected: list[str]) -> None:
    assert listed(reader, query, scene) == expected


def test_solo_mode_is_a_filter_and_is_said(reader: Client, scene: Any) -> None:
    assert listed(reader, "solo=1", scene) == ["alone"]
    for path in ("/decisions/?solo=1", f"/decisions/{scene['alone']}/"):
        assert 'data-tone="warn">solo mode' in text_of(reader, path)
    assert 'data-tone="warn">solo mode' not in text_of(reader, f"/decisions/{scene['abort']}/")


def test_times_are_days_or_moments_in_utc(reader: Client, scene: Any) -> None:
    everything = ["alone", "abort", "modify", "override"]
    assert listed(reader, f"from={day(0)}&to={day(0)}", scene) == everything
    assert listed(reader, f"from={day(1)}", scene) == listed(reader, f"to={day(-1)}", scene) == []
    at = Decision.objects.get(escalation=scene["modify"]).decided_at
    moment = f"{at:%Y-%m-%dT%H:%M:%S.%f}"
    assert listed(reader, f"to={moment}", scene) == ["modify", "override"]
    assert listed(reader, f"from={moment}Z", scene) == ["alone", "abort", "modify"]
    # A plus sign that nobody encoded arrives as a space.
    assert listed(reader, f"from={moment}+00:00&to={moment}%2B00:00", scene) == ["modify"]


@pytest.mark.parametrize(
    "query",
    [
        "from=yesterday",
        "to=2026-13-45",
        "from=9999-99-99T99:99",
        "to=9999-12-31",
        "from=0001-01-01T00:00:00%2B14:00",
        "action=APPROVE",
        "q=%07",
        "person=%E2%80%AEx",
    ],
)
def test_what_cannot_be_read_is_said_and_finds_nothing(reader: Client, scene: Any, query: str) -> None:
    page = text_of(reader, f"/decisions/?{query}")
    assert 'role="alert"' in page
    assert ROW.findall(page) == []
    for form in decision_export.FORMATS:
        answer = reader.get(f"/decisions/?{query}&format={form}")
        assert answer.status_code == 400
        assert answer.json()["wrong"]


def test_hostile_values_never_fail(reader: Client, scene: Any) -> None:
    for name in ("person", "action", "agent", "kind", "rule", "q", "from", "to", "before", "format", "solo"):
        for value in (
            "%ff",
            "'--",
            "x" * 5000,
            "9" * 400,
            "\u202e",
            "<b>",
            "{{7*7}}",
            "2026-02-30",
            "_",
            "%00",
        ):
            assert reader.get("/decisions/", {name: value}).status_code in (200, 400), (name, value)


def test_pages_meet_without_gap_or_repeat(
    reader: Client, scene: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision_list, "PAGE", 1)
    path, seen = "/decisions/?kind=ADJUST_POSITION", []
    while path:
        page = text_of(reader, path)
        seen += ROW.findall(page)
        following = re.search(r'rel="next" href="([^"]+)"', page)
        path = f"/decisions/{following[1].replace('&amp;', '&')}" if following else ""
    assert seen == [scene[name] for name in ("alone", "abort", "modify", "override")]


def test_a_search_by_rule_goes_on_where_it_ended(
    reader: Client, scene: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision_list, "MOST_EXAMINED", 1)
    path, seen, pages = "/decisions/?rule=LOW_CONFIDENCE", [], 0
    while path:
        page = text_of(reader, path)
        seen += ROW.findall(page)
        pages += 1
        following = re.search(r'rel="next" href="([^"]+)"', page)
        assert not following or "newest 1 " in page
        path = f"/decisions/{following[1].replace('&amp;', '&')}" if following else ""
    assert seen == [scene["abort"]]
    assert pages >= 4


def test_a_page_costs_as_many_queries_as_one_row(reader: Client, scene: Any) -> None:
    counts = []
    for query in ("action=OVERRIDE", "", "action=MODIFY"):
        with CaptureQueriesContext(connection) as captured:
            text_of(reader, f"/decisions/?{query}")
        counts.append(len(captured))
    # The effects of people's own proposals are one more, where there are any.
    assert counts[1] == counts[2] == counts[0] + 1


def test_json_holds_what_checking_it_elsewhere_needs(reader: Client, scene: Any) -> None:
    answer = reader.get("/decisions/?person=olga&format=json")
    assert answer["Content-Disposition"].startswith("attachment")
    document = answer.json()
    assert document["complete"] is True
    assert document["filter"] == {"person": "olga"}
    assert [row["escalation_id"] for row in document["decisions"]] == [scene["alone"], scene["override"]]
    row = document["decisions"][1]
    assert (row["person"], row["action"], row["outcome"]) == ("olga", "OVERRIDE", "PENDING")
    assert row["justification"] == "The desk agreed at 100%."
    assert row["rules"] == ["max_notional"]
    statement = row["statement"].encode()
    assert canonical.digest(statement) == row["statement_digest"]
    key = base64.b64decode(document["public_keys"][row["key_id"]])
    Ed25519PublicKey.from_public_bytes(key).verify(bytes.fromhex(row["signature"]), statement)
    assert json.loads(statement)["evidence_hash"] == row["evidence_hash"]


def test_the_program_in_the_docs_checks_a_file_and_notices_a_change(
    reader: Client, scene: Any, tmp_path: Path
) -> None:
    (text,) = re.findall(
        r"```python\n(.*?)```", Path("docs/ledger.md").read_text(encoding="utf-8"), re.DOTALL
    )
    program, file = tmp_path / "check.py", tmp_path / "decisions.json"
    program.write_text(text, encoding="utf-8")
    whole = reader.get("/decisions/?format=json").content
    record = reader.get(f"/decisions/{scene['override']}/?format=json").content
    changed = record.replace(b'"justification": "The desk', b'"justification": "A desk')
    other = re.sub(rb'"evidence": "\{', b'"evidence": "{ ', record)
    assert len({whole, record, changed, other}) == 4
    for content, signed in ((whole, 4), (record, 1), (changed, 0), (other, 0)):
        file.write_bytes(content)
        ran = subprocess.run(
            [sys.executable, str(program), str(file)], capture_output=True, text=True, check=False
        )
        assert ran.stdout.count("is signed") == signed, ran.stderr
        assert (ran.returncode == 0) == bool(signed)


def test_no_cell_of_the_csv_is_a_formula(reader: Client, scene: Any) -> None:
    answer = reader.get("/decisions/?format=csv")
    assert answer["Content-Type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    assert [row["escalation_id"] for row in rows] == [
        scene[n] for n in ("alone", "abort", "modify", "override")
    ]
    assert rows[1]["justification"] == '\'=HYPERLINK("x")'
    assert all(not value.startswith(("=", "+", "-", "@")) for row in rows for value in row.values())
    assert rows[2]["ran_effect"] not in ("", rows[2]["effect"])


@pytest.mark.parametrize(
    "text", ["=1", "+1", "-1", "@x", "\t=1", "\r=1", "\n@", "  =1", "\uff1d1", "|x", "%x"]
)
def test_a_formula_becomes_text(text: str) -> None:
    assert not decision_export.cell(text).startswith(("=", "+", "-", "@", "|", "%", "\uff1d", " ", *"\t\r\n"))
    assert decision_export.cell(text) != text
    assert decision_export.cell("plain") == "plain"


def test_a_file_that_is_not_complete_says_so_and_where_the_rest_is(
    reader: Client, scene: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision_export, "MOST", 3)
    first = reader.get("/decisions/?format=json&kind=ADJUST_POSITION").json()
    assert (first["complete"], len(first["decisions"])) == (False, 3)
    rest = reader.get(first["next"]).json()
    assert rest["complete"] is True
    assert [row["escalation_id"] for row in rest["decisions"]] == [scene["override"]]
    lines = reader.get("/decisions/?format=csv").content.decode().splitlines()
    assert lines[-1].startswith('"NOT COMPLETE: 3 decisions')


def _other_reason(pk: UUID) -> None:
    Decision.objects.filter(escalation=pk).update(justification="Nobody wrote this.")


def _other_time(pk: UUID) -> None:
    Decision.objects.filter(escalation=pk).update(decided_at=clock.now() - timedelta(days=9))


def _other_person(pk: UUID) -> None:
    Decision.objects.filter(escalation=pk).update(approver=User.objects.get(username="sam"))


def _other_statement(pk: UUID) -> None:
    row = Decision.objects.get(escalation=pk)
    stated = canonical.decode(bytes(row.statement)) | {"justification": "Nobody wrote this."}
    Decision.objects.filter(escalation=pk).update(
        statement=canonical.encode(stated), justification="Nobody wrote this."
    )


def _other_evidence(pk: UUID) -> None:
    row = Evidence.objects.get(escalation=pk)
    changed = canonical.decode(bytes(row.body)) | {"effect": [{"text": "BUY 1 SAFE", "value": False}]}
    body = canonical.encode(changed)
    Evidence.objects.filter(pk=row.pk).update(body=body, hash=canonical.digest(body))


@pytest.mark.parametrize(
    "change", [_other_reason, _other_time, _other_person, _other_statement, _other_evidence]
)
def test_what_the_ledger_does_not_confirm_is_named_and_not_shown(
    reader: Client, scene: Any, change: Callable[[UUID], None]
) -> None:
    change(UUID(scene["override"]))
    for path in ("/decisions/", "/decisions/?rule=LOW_CONFIDENCE"):
        page = text_of(reader, path)
        assert page.count(NOTICE) == 1
        assert "Nobody wrote this" not in page
        assert "BUY 1 SAFE" not in page
    rows = {row["escalation_id"]: row for row in reader.get("/decisions/?format=json").json()["decisions"]}
    wrong = rows.pop(scene["override"])
    assert wrong["matches_ledger"] is False
    assert wrong.keys() == {"escalation_id", "dfid", "matches_ledger", "mismatches"}
    assert all(row["matches_ledger"] for row in rows.values())
    record = text_of(reader, f"/decisions/{scene['override']}/")
    assert "does not match the ledger" in record
    assert "Nobody wrote this" not in record


def test_a_record_has_everything_and_no_form(reader: Client, scene: Any) -> None:
    row = Decision.objects.get(escalation=scene["override"])
    page = text_of(reader, f"/decisions/{scene['override']}/")
    for part in (
        "The desk agreed at 100%.",
        "olga",
        "max_notional",
        row.evidence_hash,
        canonical.digest(bytes(row.statement)),
        bytes(row.signature).hex(),
        row.key_id,
        str(row.escalation.flow_id),
    ):
        assert part in page, part
    assert "<form" not in page.split("<main")[1].split("</main>")[0]
    document = reader.get(f"/decisions/{scene['override']}/?format=json").json()
    (only,) = document["decisions"]
    assert canonical.digest(only["evidence"].encode()) == only["evidence_hash"] == row.evidence_hash


def test_a_choice_is_not_shown_while_another_person_still_has_to_decide(reader: Client, scene: Any) -> None:
    Escalation.objects.filter(pk=scene["override"]).update(state="OPEN", resolved_at=None)
    assert listed(reader, "", scene) == ["alone", "abort", "modify"]
    record = text_of(reader, f"/decisions/{scene['override']}/")
    assert "No person has decided this" in record
    assert "The desk agreed" not in record


def test_the_page_of_a_decided_escalation_leads_to_its_record(reader: Client, scene: Any) -> None:
    link = f'href="/decisions/{scene["override"]}/"'
    assert link in text_of(reader, f"/escalations/{scene['override']}/")
    waiting = Escalation.objects.filter(state="OPEN").first()
    assert waiting is not None
    assert f'href="/decisions/{waiting.pk}/"' not in text_of(reader, f"/escalations/{waiting.pk}/")


def test_a_record_of_what_nobody_decided(reader: Client, scene: Any) -> None:
    waiting = Escalation.objects.filter(state="OPEN").first()
    assert waiting is not None
    assert "No person has decided this" in text_of(reader, f"/decisions/{waiting.pk}/")
    assert reader.get("/decisions/019aa000-0000-7000-8000-000000000000/").status_code == 404
