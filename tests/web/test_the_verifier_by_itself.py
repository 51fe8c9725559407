"""The offline verifier as one file, from the page of the ledger: it judges a pack without this project."""

import hashlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.test import Client

from audit.access.roles import Role
from audit.packs import verify
from runtime.maintenance.services import evidence_packs
from tests.support import factories
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db


def test_an_auditor_takes_the_verifier_and_judges_a_pack(tmp_path: Path) -> None:
    desk = factories.desk()
    flow = desk.open()
    desk.propose(flow)
    pack = evidence_packs.make(tenant="default", dfid=flow.dfid)
    assert pack is not None
    (tmp_path / "pack.zip").write_bytes(pack)
    auditor = sign_in(Role.AUDITOR, name="ann")
    page = text_of(auditor, "/ledger/")
    answer = auditor.get("/ledger/verify.py")
    assert answer["Content-Disposition"] == 'attachment; filename="verify.py"'
    assert hashlib.sha256(answer.content).hexdigest() in page
    (tmp_path / "verify.py").write_bytes(answer.content)
    judged = subprocess.run(
        [sys.executable, "-I", "verify.py", "pack.zip"],
        cwd=tmp_path,
        env={},
        capture_output=True,
        text=True,
        check=False,
    )
    assert judged.returncode == 0, judged.stdout
    assert re.search(r"Proved", judged.stdout)


def test_it_is_the_file_of_the_packs_and_for_people_who_are_signed_in() -> None:
    assert Client().get("/ledger/verify.py").status_code == 302
    given = sign_in(Role.OPERATOR).get("/ledger/verify.py").content
    assert given == Path(verify.__file__).read_bytes()
