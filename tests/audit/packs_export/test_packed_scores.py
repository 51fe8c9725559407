"""Scorecards in packs of real flows: followed by a stranger, and worked out again."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction

from audit import canonical
from audit.models import DecisionRecord, LedgerEntry
from audit.packs import verify
from audit.packs.verify import Brought
from runtime.maintenance.services import scoring, sealing
from tests.audit.packs_export.test_packs_of_flows import Flows, opened
from tests.support import exported_packs, ledger_tampering, worlds

pytestmark = pytest.mark.django_db
flows = worlds.opened(opened)


@pytest.fixture
def scored(flows: Flows, django_db_blocker: Any) -> Iterator[Flows]:
    """The flows, those that have ended scored and sealed."""
    with django_db_blocker.unblock(), transaction.atomic():
        assert scoring.score_due() >= 3
        sealing.seal_now(with_heads=True)
        yield flows
        transaction.set_rollback(True)


@pytest.mark.parametrize("name", ["accepted", "aborted", "undone"])
def test_a_stranger_finds_the_scores_right(scored: Flows, name: str, tmp_path: Path) -> None:
    dfid = getattr(scored, name)
    pack = exported_packs.make(dfid)
    code, answer = exported_packs.verified(pack, tmp_path)
    assert answer["findings"] == []
    assert code == 0
    assert any("Each scorecard is of the terminal record before it" in said for said in answer["proved"])
    *_, last, newest = pack.records().values()
    assert (newest["supersedes"], newest["terminal"]) == (last["record_id"], True)
    assert newest["scorecard"]["result"] == ("passed" if name == "accepted" else "failed")
    assert DecisionRecord.objects.filter(dfid=dfid).count() == len(pack.records())


@pytest.mark.parametrize("old", [b'"value":"0"', b'"minimum":"0.5"', b'"result":"failed"', b'"passed":false'])
def test_a_forged_score_is_found_by_its_entry(scored: Flows, old: bytes) -> None:
    new = {b'"value":"0"': b'"value":"1"', b'"minimum":"0.5"': b'"minimum":"0.0"'}
    new |= {b'"result":"failed"': b'"result":"passed"', b'"passed":false': b'"passed":true'}
    entry = LedgerEntry.objects.get(stream=str(scored.aborted), kind="record:scored")
    members = exported_packs.make(scored.aborted).members
    said = canonical.decode(bytes(entry.body).replace(old, new[old], 1))
    pack = verify.Pack(members, None, Brought())
    (place,) = (at for at, each in enumerate(pack.flow) if each.seq == entry.seq)
    pack.flow[place] = replace(pack.flow[place], content=said)
    assert {item.code for item in verify.check_scores(pack)} == {"SCORE_DIFFERS"}


def test_a_score_of_another_record_is_found(scored: Flows) -> None:
    members = exported_packs.make(scored.aborted).members
    pack = verify.Pack(members, None, Brought())
    place = next(at for at, each in enumerate(pack.flow) if each.kind == "record:scored")
    content = {**pack.flow[place].content, "payload": {**pack.flow[place].payload, "record_hash": "0" * 64}}
    pack.flow[place] = replace(pack.flow[place], content=content)
    assert "SCORE_PLACE" in {item.code for item in verify.check_scores(pack)}


def test_without_the_record_that_was_scored_it_is_said_that_it_is_not_proved(scored: Flows) -> None:
    last = DecisionRecord.objects.get(dfid=scored.aborted, terminal=True, supersedes__isnull=True)
    ledger_tampering.quietly("UPDATE audit_decisionrecord SET body = %s WHERE id = %s", [b"{}", last.pk])
    pack = verify.Pack(exported_packs.make(scored.aborted).members, None, Brought())
    assert list(verify.check_scores(pack)) == []
    assert any("scores of entry" in said for said in verify.not_proved(pack))
