"""DIR_WITNESS is read strictly: whoever sets it wrongly hears so at the start, and no token is shown."""

import os
from pathlib import Path

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from dir_console import env
from runtime.workers.embedded import Drain
from tests.support import witness_places

ALLOWED = ["witness.local", "10.0.0.7:8080", "[::1]"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", []),
        ("/mnt/witness", ["/mnt/witness"]),
        (" /mnt/a/ , /mnt/b,", ["/mnt/a", "/mnt/b"]),
        ("file:///mnt/with%20space", ["/mnt/with space"]),
        ("file://localhost/mnt/a,/mnt/a", ["/mnt/a"]),
        ("https://witness.example/hook?x=1", ["https://witness.example/hook?x=1"]),
        ("http://witness.local/hook", ["http://witness.local/hook"]),
        ("http://10.0.0.7:8080", ["http://10.0.0.7:8080"]),
        ("http://[::1]:9/a", ["http://[::1]:9/a"]),
    ],
)
def test_folders_and_webhooks_are_read(
    given: str, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIR_WITNESS", given)
    assert env.witnesses(allow=ALLOWED) == expected


@pytest.mark.parametrize(
    "wrong",
    [
        "mnt/witness",
        "./witness",
        "file://server/mnt/witness",
        "file:witness",
        "ftp://witness.example/t0ken",
        "https://",
        "https://user:t0ken@witness.example",
        "https://[::1/t0ken",
        "https://witness.example:port/t0ken",
        "http://witness.example/t0ken",
        "http://10.0.0.7/t0ken",
        "/mnt/\0witness",
    ],
)
def test_what_is_neither_is_refused_by_its_position(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"DIR_WITNESS": f"/mnt/witness,{wrong}"})
    with pytest.raises(ImproperlyConfigured, match="DIR_WITNESS: value 2") as raised:
        env.witnesses(allow=ALLOWED)
    assert "t0ken" not in str(raised.value)
    assert raised.value.__cause__ is None


@pytest.mark.parametrize("secret", ["", "short", "whsec_", "whsec_c2hvcnQ=", "!" * 40])
def test_a_webhook_needs_a_secret_that_can_sign(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIR_WITNESS_SECRET", secret)
    with pytest.raises(ImproperlyConfigured, match="DIR_WITNESS_SECRET must hold") as raised:
        env.witness_secret(["https://witness.example"])
    assert not secret or secret not in str(raised.value).replace("whsec_", "", 1)
    assert env.witness_secret(["/mnt/witness"]) == secret


def test_a_secret_of_the_usual_form_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for secret in (witness_places.SECRET, witness_places.SECRET.removeprefix("whsec_")):
        monkeypatch.setenv("DIR_WITNESS_SECRET", secret)
        assert env.witness_secret(["https://witness.example"]) == secret


@pytest.mark.parametrize("places", [[], ["/mnt/witness"]])
def test_the_embedded_server_sends_where_there_is_a_witness(
    places: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    begun: list[str] = []
    monkeypatch.setattr(settings, "DIR_WITNESS", places)
    monkeypatch.setattr(Drain, "_begin", lambda self, name, target: begun.append(name))
    working = Drain()
    working.start()
    working.stop(timeout_s=1)
    assert ("witness" in begun) is bool(places)
