"""How a pack gets out: by the command, and by the link on the page of the flow."""

import re
import stat
from io import StringIO
from pathlib import Path
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from audit.access.roles import Role
from audit.models import Checkpoint, UnsealedEntry
from tests.support import exported_packs, factories, restored_backup
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def flow(db: None) -> factories.Opened:
    return factories.desk().open()


def export(dfid: object, out: Path) -> str:
    printed = StringIO()
    call_command("export_evidence", str(dfid), "--out", str(out), stdout=printed)
    return printed.getvalue()


def test_the_command_seals_and_writes_a_pack_that_is_whole(flow: factories.Opened, tmp_path: Path) -> None:
    out = tmp_path / "evidence.zip"
    said = export(flow.dfid, out)
    assert said == f"{out}: {out.stat().st_size} bytes. To check it: python3 -I verify.py {out}\n"
    assert stat.S_ISREG(out.stat().st_mode)
    pack = exported_packs.read(out.read_bytes())
    assert [body["kind"] for body in pack.flow()] == flow.entries()
    assert not UnsealedEntry.objects.exists()
    code, answer = exported_packs.verified(pack, tmp_path)
    assert (code, answer["findings"]) == (0, [])


def test_the_command_proves_that_the_flow_has_no_further_entry(tmp_path: Path) -> None:
    """Also where the ends of all streams were committed to a moment ago, when the flow had fewer entries."""
    desk = factories.desk()
    flow = desk.open()
    before = exported_packs.make(flow.dfid).read("head.json")["head"]
    desk.propose(flow)
    export(flow.dfid, out := tmp_path / "evidence.zip")
    pack = exported_packs.read(out.read_bytes())
    head = pack.read("head.json")["head"]
    last = pack.lines("entries.jsonl")[len(pack.flow()) - 1]
    assert before["seq"] < head["seq"] == last["seq"] == len(flow.entries())
    assert head["hash"] == last["hash"]
    assert exported_packs.verified(pack, tmp_path)[0] == 0


def test_the_command_overwrites_nothing(flow: factories.Opened, tmp_path: Path) -> None:
    out = tmp_path / "evidence.zip"
    out.write_bytes(b"mine")
    with pytest.raises(CommandError, match=r"evidence\.zip exists already; nothing was written\."):
        export(flow.dfid, out)
    assert out.read_bytes() == b"mine"


def test_the_command_says_where_it_cannot_write(flow: factories.Opened, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"cannot be written: No such file or directory\."):
        export(flow.dfid, tmp_path / "no" / "folder")


def test_the_command_refuses_what_is_no_flow(flow: factories.Opened, tmp_path: Path) -> None:
    out, unknown = tmp_path / "evidence.zip", uuid4()
    for dfid, why in ((unknown, f"There is no flow {unknown}."), ("x", "x is not the id of a flow.")):
        with pytest.raises(CommandError) as refused:
            export(dfid, out)
        assert str(refused.value) == why
        assert refused.value.returncode == 1
    assert not out.exists()


@pytest.mark.parametrize("role", list(Role))
def test_everybody_who_may_read_may_download(flow: factories.Opened, role: Role) -> None:
    client = sign_in(role)
    page = text_of(client, f"/flows/{flow.dfid}/")
    link = re.search(r'<a class="btn" href="([^"]+)" download>', page)
    assert link is not None
    answer = client.get(link[1])
    assert answer.status_code == 200
    assert answer["Content-Type"] == "application/zip"
    assert answer["Content-Disposition"] == f'attachment; filename="evidence-{flow.dfid}.zip"'
    pack = exported_packs.read(answer.content)
    assert [body["kind"] for body in pack.flow()] == flow.entries()


def test_a_stranger_is_sent_to_sign_in_and_nothing_is_sealed(flow: factories.Opened) -> None:
    answer = Client().get(f"/flows/{flow.dfid}/evidence.zip")
    assert answer.status_code == 302
    assert answer["Location"].startswith("/accounts/login/")
    assert not Checkpoint.objects.exists()


def test_an_unknown_flow_is_not_found(flow: factories.Opened) -> None:
    assert sign_in(Role.AUDITOR).get(f"/flows/{uuid4()}/evidence.zip").status_code == 404


def test_in_recovery_a_pack_holds_what_is_sealed_and_no_more(
    flow: factories.Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = exported_packs.make(flow.dfid)
    later = factories.desk(agent_id="later").open()
    restored_backup.restore(restored_backup.keep_mark(tmp_path, monkeypatch))
    client = sign_in(Role.AUDITOR)
    pack = exported_packs.read(client.get(f"/flows/{flow.dfid}/evidence.zip").content)
    assert pack.lines("entries.jsonl") == before.lines("entries.jsonl")

    answer = client.get(f"/flows/{later.dfid}/evidence.zip")
    assert answer.status_code == 409
    assert "No signed checkpoint covers this flow yet" in answer.content.decode()
    with pytest.raises(CommandError, match="No signed checkpoint covers this flow yet"):
        export(later.dfid, tmp_path / "evidence.zip")
