"""`target_check`: could a call be made? It connects, and sends nothing."""

import base64
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from pytest_django.fixtures import Settings

from audit.models import LedgerEntry
from runtime.execution.services import connectivity
from tests.support import misbehaving_targets, trading_desk

pytestmark = pytest.mark.django_db
SECRET = "whsec_" + base64.b64encode(b"only for this test, of no value").decode()


@pytest.fixture(autouse=True)
def _pack(settings: Settings) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    trading_desk.open_desk()


def found(base_url: str, *, secret_env: str = "") -> connectivity.TargetCheck:
    trading_desk.place_target(base_url, secret_env=secret_env)
    checked = connectivity.check_target(tenant=trading_desk.TENANT, name="broker", actor="user:1")
    assert checked is not None
    return checked


def test_a_reachable_target_is_good_and_hears_nothing() -> None:
    with misbehaving_targets.stand_in(misbehaving_targets.answer(200)) as running:
        checked = found(running.base_url)
        assert checked.is_good
        assert checked.findings[0].endswith("reachable")
        assert "not signed" in checked.findings[1]
        assert not running.seen
        looked = LedgerEntry.objects.get(stream="target:broker")
        assert (looked.kind, looked.actor) == ("target:checked", "user:1")
        assert looked.payload == {"target": "broker", "is_good": True}


@pytest.mark.parametrize(
    ("base_url", "words"),
    [
        ("http://127.0.0.1:1", "no server responds"),
        ("http://10.0.0.1", "not public"),
        ("http://no-such-name.invalid", "does not resolve"),
        ("ftp://127.0.0.1", "not an http"),
        ("http://127.0.0.1:x", "not a URL"),
    ],
)
def test_says_why_a_target_cannot_be_called(base_url: str, words: str) -> None:
    checked = found(base_url)
    assert not checked.is_good
    assert words in checked.findings[0]


def test_a_target_without_good_tls_is_not_good() -> None:
    with misbehaving_targets.stand_in(misbehaving_targets.answer(200)) as running:
        assert not found(running.base_url.replace("http:", "https:")).is_good


def test_says_whether_the_secret_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with misbehaving_targets.stand_in(misbehaving_targets.answer(200)) as running:
        monkeypatch.delenv("TRIAL_SECRET", raising=False)
        assert "is not set" in found(running.base_url, secret_env="TRIAL_SECRET").findings[1]
        monkeypatch.setenv("TRIAL_SECRET", "x")
        checked = found(running.base_url, secret_env="TRIAL_SECRET")
        assert not checked.is_good
        assert "base64" in checked.findings[1]
        monkeypatch.setenv("TRIAL_SECRET", SECRET)
        assert found(running.base_url, secret_env="TRIAL_SECRET").is_good


def test_the_command_names_what_is_not_good() -> None:
    out = StringIO()
    with misbehaving_targets.stand_in(misbehaving_targets.answer(200)) as running:
        trading_desk.place_target(running.base_url)
        call_command("target_check", stdout=out)
        assert "broker: " in out.getvalue()
        with pytest.raises(CommandError, match="failed: nobody"):
            call_command("target_check", "broker", "nobody", stdout=out)
    with pytest.raises(CommandError, match="failed: broker"):
        call_command("target_check", stdout=out)


def test_the_sweep_command_tells_its_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    out = StringIO()
    call_command("sweep", stdout=out)
    assert "orphans: 0" in out.getvalue()
    assert "failed: 0" in out.getvalue()
    monkeypatch.setattr("runtime.core.ports.expire_escalations", lambda: 1 / 0)
    with pytest.raises(CommandError, match="1 could not be repaired"):
        call_command("sweep", stdout=out)
