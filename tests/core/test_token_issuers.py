"""DIR_TOKEN_ISSUERS: whose tokens agents may authenticate with; a wrong value says what to do."""

import json

import pytest
from django.core.exceptions import ImproperlyConfigured

from dir_console import env
from runtime.contracts.token_issuer import TrustedIssuer

NAME = "https://login.example"
DECLARED = {"audience": "dir-console", "keys": "https://login.example/jwks.json"}


def read(monkeypatch: pytest.MonkeyPatch, text: str, *allow: str) -> dict[str, TrustedIssuer]:
    monkeypatch.setenv("DIR_TOKEN_ISSUERS", text)
    return env.token_issuers(allow=allow)


def test_without_the_variable_nobody_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DIR_TOKEN_ISSUERS", raising=False)
    assert env.token_issuers(allow=()) == {}


def test_an_issuer_is_read_with_its_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    found = read(monkeypatch, json.dumps({NAME: DECLARED}))
    wanted = TrustedIssuer(issuer=NAME, audience="dir-console", keys_at=DECLARED["keys"], max_age_s=3600)
    assert found == {NAME: wanted}


@pytest.mark.parametrize(
    ("keys", "allow"),
    [
        ("/etc/issuer/jwks.json", ()),
        ("http://127.0.0.1:8200/keys", ("127.0.0.1",)),
        ("http://127.0.0.1:8200/keys", ("127.0.0.1:8200",)),
        ("http://[::1]:8200/keys", ("[::1]",)),
    ],
)
def test_keys_may_be_in_a_file_or_on_an_allowed_host(
    monkeypatch: pytest.MonkeyPatch, keys: str, allow: tuple[str, ...]
) -> None:
    assert read(monkeypatch, json.dumps({NAME: {**DECLARED, "keys": keys}}), *allow)[NAME].keys_at == keys


@pytest.mark.parametrize(
    "keys",
    [
        "http://login.example/jwks.json",
        "https://user:word@login.example/jwks.json",
        "https://",
        "https://[/",
        "ftp://login.example/x",
        "keys.json",
    ],
)
def test_keys_come_by_tls_or_from_a_file(monkeypatch: pytest.MonkeyPatch, keys: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="https URL"):
        read(monkeypatch, json.dumps({NAME: {**DECLARED, "keys": keys}}))


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        json.dumps({NAME: 7}),
        json.dumps({NAME: {}}),
        json.dumps({"": DECLARED}),
        json.dumps({NAME: {**DECLARED, "audience": ""}}),
        json.dumps({NAME: {**DECLARED, "audience": ["a"]}}),
        json.dumps({NAME: {**DECLARED, "algorithms": ["none"]}}),
        json.dumps({NAME: {**DECLARED, "max_age_s": 0}}),
        json.dumps({NAME: {**DECLARED, "max_age_s": True}}),
        json.dumps({NAME: {**DECLARED, "max_age_s": "60"}}),
    ],
)
def test_any_other_value_says_what_to_write(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="must be JSON such as"):
        read(monkeypatch, text)
