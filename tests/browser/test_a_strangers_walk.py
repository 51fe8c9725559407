"""A pack from the button of a flow's page to whoever knows nothing of the console: every byte counts."""

import functools
import io
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import Page

from audit.packs import verify
from demo.client import Client
from tests.browser import conftest
from tests.browser.conftest import Console

pytestmark = pytest.mark.usefixtures("full_bucket")
PASSWORD = "a long phrase to read with"
# Places of the archive itself: how far from its end the directory and its end are sampled.
TAIL = 400


def run(folder: Path, archive: bytes) -> subprocess.CompletedProcess[str]:
    """The verifier in a folder that holds nothing else: no environment, and no network where that can be."""
    (folder / "pack.zip").write_bytes(archive)
    command = [sys.executable, "-I", "verify.py", "pack.zip"]
    if can_unshare():
        command = ["unshare", "-rn", *command]
    return subprocess.run(
        command, cwd=folder, env={}, capture_output=True, text=True, timeout=60, check=False
    )


def can_unshare() -> bool:
    if shutil.which("unshare") is None:
        return False
    done = subprocess.run(["unshare", "-rn", "true"], capture_output=True, timeout=10, check=False)
    return done.returncode == 0


def sampled(archive: bytes) -> dict[str, int]:
    """Positions to change: in the middle of every member, in its header, and all over the directory."""
    places = {}
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        for info in file.infolist():
            header = info.header_offset
            start = header + 30 + len(info.filename.encode())
            places[f"the header of {info.filename}"] = header + 10
            places[f"the name of {info.filename}"] = header + 30
            if info.compress_size:
                places[info.filename] = start + info.compress_size // 2
        places["the start of the directory"] = file.start_dir
    places |= {f"{back} before the end": len(archive) - back for back in range(1, TAIL, 57)}
    return places


def test_a_pack_out_of_the_browser_is_judged_by_whoever_gets_it(
    console: Console,
    page: Page,
    agent: Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = conftest.escalate(agent, symbol="MSFT", cents=150_000)
    dfid = console.command(
        "shell",
        "-c",
        "from escalations.models import Escalation; "
        f"print(Escalation.objects.get(pk='{made.escalation_id}').flow_id)",
    ).splitlines()[-1]
    console.command("add_user", "reader", "--role", "auditor", "--password-stdin", given=PASSWORD)
    page.goto(f"{console.url}/accounts/login/")
    page.fill("[name=login]", "reader")
    page.fill("[name=password]", PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{console.url}/")
    page.goto(f"{console.url}/flows/{dfid}/")
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Download it at once").click()
    taken = tmp_path / "taken.zip"
    waiting.value.save_as(taken)
    archive = taken.read_bytes()

    stranger = tmp_path / "stranger"
    stranger.mkdir()
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        (stranger / "verify.py").write_bytes(file.read("verify.py"))
    whole = run(stranger, archive)
    assert whole.returncode == 0, whole.stdout + whole.stderr
    assert sorted(path.name for path in stranger.iterdir()) == ["pack.zip", "verify.py"]

    # As a program where that is cheap enough, else the very same file in this process.
    assert (stranger / "verify.py").read_bytes() == Path(verify.__file__).read_bytes()
    monkeypatch.setattr(verify, "is_signed", functools.cache(verify.is_signed))
    places = sampled(archive)
    assert len(places) > 30
    unseen = []
    for number, (what, at) in enumerate(places.items()):
        changed = archive[:at] + bytes([archive[at] ^ 0x20]) + archive[at + 1 :]
        if number % 10 == 0:
            judged = run(stranger, changed)
            code, words = judged.returncode, judged.stdout + judged.stderr
        else:
            (stranger / "pack.zip").write_bytes(changed)
            code = verify.main([str(stranger / "pack.zip")])
            words = capsys.readouterr().out
        is_named = code == 2 or what in words or "entry" in words.lower() or "archive" in words.lower()
        if code not in {1, 2} or "Traceback" in words or not is_named:
            unseen.append(f"{what}: {code} {words[:300]}")
    assert unseen == []
