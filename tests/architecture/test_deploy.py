"""`manage.py check --deploy`: nothing is left to say of an install behind a proxy with TLS."""

import base64
import secrets
import subprocess
from pathlib import Path

import pytest

from tests.faults.processes import ROOT, clean_environment, python

SECURE = {"DIR_HTTPS": "1", "DIR_TRUST_PROXY": "1"}


def said(folder: Path, env: dict[str, str]) -> str:
    secret = {
        "DIR_DATA": str(folder),
        "DIR_SECRET_KEY": secrets.token_urlsafe(48),
        "DIR_SIGNING_KEY": base64.b64encode(secrets.token_bytes(32)).decode(),
        "DIR_PAYLOAD_KEY": base64.b64encode(secrets.token_bytes(32)).decode(),
    }
    done = subprocess.run(
        python("manage.py", "check", "--deploy"),
        cwd=ROOT,
        env=clean_environment({**secret, **env}),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("env", [SECURE, {"DIR_HTTPS": "1"}], ids=["trusted proxy", "proxy that redirects"])
def test_https_leaves_no_warning(env: dict[str, str], tmp_path: Path) -> None:
    assert "no issues" in said(tmp_path, env)


def test_plain_http_is_warned_of(tmp_path: Path) -> None:
    text = said(tmp_path, {})
    for code in ("W004", "W008", "W012", "W016"):
        assert f"security.{code}" in text
