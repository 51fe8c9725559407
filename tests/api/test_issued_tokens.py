"""Agents that authenticate by a token: its binding says who they are, and nothing in the token does."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from pytest_django.fixtures import Settings

from audit.models import LedgerEntry
from audit.verification import findings
from runtime.contracts.problem import Problem
from runtime.registry.models import Key
from runtime.registry.services import credentials, issued_tokens
from tests.support import api_client, token_issuers
from tests.support.api_client import OTHER, TRADER, Caller
from tests.support.token_issuers import AUDIENCE, Issuer, signed

SUBJECT, OTHERS = "workload:trader", "workload:other"


@pytest.fixture
def issuer(desk: None, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Issuer]:
    """A trusted issuer, one of whose subjects is bound to the trader and another to another agent."""
    monkeypatch.setattr(issued_tokens, "_sets", {})
    with token_issuers.running() as running:
        settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
        settings.DIR_TOKEN_ISSUERS = running.trusted()
        bind(running)
        bind(running, agent_id=OTHER, subject=OTHERS)
        yield running


def bind(issuer: Issuer, *, agent_id: str = TRADER, subject: str = SUBJECT, environment: str = "") -> Key:
    bound = try_to_bind(issuer, agent_id=agent_id, subject=subject, environment=environment)
    assert isinstance(bound, Key), bound
    return bound


def try_to_bind(at: Issuer, **given: Any) -> Key | Problem:
    named = {"agent_id": TRADER, "subject": SUBJECT, "issuer": at.name, **given}
    return credentials.bind_token(tenant="default", actor="user:1", **named)


def shake(token: str, agent_id: str = TRADER, **said: Any) -> api_client.Heard:
    return Caller(token).post("/handshake", api_client.hello(agent_id, **said))


def refuse(token: str) -> None:
    """It is refused in the very words in which a wrong key is."""
    wrong = shake("agk_0123456789abcdef." + "A" * 43)
    found = shake(token)
    assert (found.status, found.content) == (401, wrong.content)
    assert not LedgerEntry.objects.filter(kind="session:opened").exists()


def test_a_token_opens_the_session_that_a_key_opens(issuer: Issuer) -> None:
    answer = shake(issuer.token()).ok()
    with_key = Caller(api_client.agent_key()).post("/handshake", api_client.hello()).ok()
    assert set(answer) == set(with_key)
    trader = Caller(answer["session_token"])
    dfid = trader.open_flow()
    assert trader.propose(dfid, api_client.proposal(trader.context(dfid))).ok()["verdict"] == "ACCEPT"
    opened = LedgerEntry.objects.filter(kind="session:opened").earliest("id").payload
    assert opened["agent_id"] == TRADER
    assert Key.objects.get(key_id=opened["key_id"]).subject == SUBJECT
    assert findings.verify_all().findings == []


@pytest.mark.parametrize("algorithm", ["ES384", "EdDSA", "RS256"])
def test_keys_of_other_kinds_are_taken(issuer: Issuer, algorithm: str) -> None:
    issuer.begin_key("another", algorithm)
    shake(issuer.token(kid="another")).ok()


def test_a_list_of_audiences_may_hold_ours(issuer: Issuer) -> None:
    shake(issuer.token(aud=["another", AUDIENCE])).ok()


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "another-service"},
        {"aud": ["another-service"]},
        {"aud": None},
        {"aud": ""},
        {"aud": {"dir-console": 1}},
        {"iss": "https://another.example"},
        {"iss": None},
        {"iss": ["x"]},
        {"exp": 1},
        {"exp": int(time.time()) - 31},
        {"exp": None},
        {"exp": "tomorrow"},
        {"nbf": int(time.time()) + 3600},
        {"iat": int(time.time()) + 3600},
        {"iat": int(time.time()) - 3600 - 60},
        {"iat": None},
        {"iat": True},
        {"iat": str(int(time.time()))},
        {"sub": "workload:nobody"},
        {"sub": ""},
        {"sub": None},
        {"sub": 7},
        {"sub": "x" * 300},
        {"sub": SUBJECT.upper()},
        {"sub": f"{SUBJECT} "},
    ],
)
def test_a_token_with_a_wrong_claim_is_a_wrong_key(issuer: Issuer, claims: dict[str, Any]) -> None:
    said = issuer.claims(**claims)
    refuse(raw_token(said, issuer))


def raw_token(claims: dict[str, Any], issuer: Issuer, kid: str = "k1") -> str:
    """Signed by the real key, whatever the claims are: the library checks some before it signs."""
    import jwt

    key, algorithm = issuer.keys[kid]
    return jwt.api_jws.encode(
        json.dumps(claims).encode(), key, algorithm=algorithm, headers={"kid": kid, "typ": "JWT"}
    )


def part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.mark.parametrize("named", ["none", "None", "NONE", ""])
def test_a_token_without_a_signature_is_a_wrong_key(issuer: Issuer, named: str) -> None:
    header = part({"alg": named, "kid": "k1", "typ": "JWT"})
    refuse(f"{header}.{part(issuer.claims())}.")
    refuse(f"{header}.{part(issuer.claims())}.{issuer.token().rpartition('.')[2]}")


def test_a_public_key_is_no_secret_to_sign_with(issuer: Issuer) -> None:
    """The oldest mistake: HS256 with what everybody can read of the issuer."""
    issuer.begin_key("rsa", "RS256")
    for kid in ("k1", "rsa"):
        public = issuer.keys[kid][0].public_key()
        forms = [
            public.public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo)
            for encoding in (serialization.Encoding.PEM, serialization.Encoding.DER)
        ]
        forms.append(json.dumps(issuer.key_set[0 if kid == "k1" else 1]).encode())
        for secret in forms:
            said = f"{part({'alg': 'HS256', 'kid': kid})}.{part(issuer.claims())}"
            mac = hmac.new(secret, said.encode(), hashlib.sha256).digest()
            refuse(f"{said}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}")


def test_a_key_that_the_token_brings_along_is_not_asked(issuer: Issuer) -> None:
    own = token_issuers.new_key("ES256")
    brought = token_issuers.jwk(own, kid="k1")
    for headers in (
        {"kid": "k1"},
        {"kid": "k1", "jwk": brought},
        {"kid": "k1", "jku": "http://127.0.0.1:9/x"},
    ):
        refuse(signed(issuer.claims(), own, "ES256", **headers))


def test_a_key_serves_its_own_algorithm_only(issuer: Issuer) -> None:
    key, named = issuer.begin_key("rsa", "RS256"), issuer.begin_key("pss", "RS256", alg="PS256")
    refuse(signed(issuer.claims(), key, "PS256", kid="rsa"))
    refuse(signed(issuer.claims(), key, "RS512", kid="rsa"))
    refuse(signed(issuer.claims(), named, "RS256", kid="pss"))
    shake(signed(issuer.claims(), named, "PS256", kid="pss")).ok()


@pytest.mark.parametrize(
    "members", [{"use": "enc"}, {"alg": "HS256"}, {"kty": "oct", "k": "c2VjcmV0"}, {"crv": "P-1"}]
)
def test_a_key_for_something_else_verifies_nothing(issuer: Issuer, members: dict[str, Any]) -> None:
    issuer.begin_key("other", "ES256", **members)
    refuse(issuer.token(kid="other"))


@pytest.mark.parametrize(
    "headers", [{"kid": "unknown"}, {"kid": 7}, {"kid": ""}, {}, {"kid": "k1", "crit": ["x"]}]
)
def test_a_token_with_an_unusable_header_is_a_wrong_key(issuer: Issuer, headers: dict[str, Any]) -> None:
    said = f"{part({'alg': 'ES256', **headers})}.{part(issuer.claims())}"
    refuse(f"{said}.{issuer.token().rpartition('.')[2]}")


@pytest.mark.parametrize(
    "text", ["a.b.c", "..", "e30.e30.", "\N{SNOWMAN}.x.y", "x" * 9000 + ".x.y", "[" * 5000 + ".x.y"]
)
def test_text_that_is_no_token_is_a_wrong_key(issuer: Issuer, text: str) -> None:
    assert issued_tokens.verify(text) is None
    refuse(text.encode("ascii", "replace").decode())


def test_a_deep_token_is_a_wrong_key(issuer: Issuer) -> None:
    deep = base64.urlsafe_b64encode(b"[" * 4000).decode().rstrip("=")
    refuse(f"{deep}.{part({})}.x")
    refuse(f"{part({'alg': 'ES256', 'kid': 'k1'})}.{deep[:2000]}.x")


def test_a_changed_token_is_a_wrong_key(issuer: Issuer) -> None:
    head, _, signature = issuer.token(OTHERS).split(".")
    refuse(f"{head}.{part(issuer.claims(SUBJECT))}.{signature}")


def test_a_subject_is_one_agent_only(issuer: Issuer) -> None:
    """Whoever is another agent by its token stays it, whatever the body says."""
    refused = shake(issuer.token(OTHERS), TRADER).problem(403, "UNAUTHORIZED")
    assert "agent_id" in refused["detail"]
    shake(issuer.token(OTHERS), OTHER).ok()
    again = try_to_bind(issuer, agent_id=OTHER)
    assert isinstance(again, Problem)
    assert "is bound already" in again.detail
    with pytest.raises(IntegrityError), transaction.atomic():
        Key.objects.filter(subject=OTHERS).update(subject=SUBJECT)


def test_a_revoked_binding_ends_its_sessions_and_opens_none(issuer: Issuer) -> None:
    caller = Caller(shake(issuer.token()).ok()["session_token"])
    caller.get("/schema/policy").ok()
    key = Key.objects.get(subject=SUBJECT)
    credentials.revoke_key(key_id=key.key_id, actor="user:1")
    caller.get("/schema/policy").problem(401, "UNAUTHENTICATED")
    shake(issuer.token()).problem(401, "UNAUTHENTICATED")
    bind(issuer)
    shake(issuer.token()).ok()
    assert findings.verify_all().findings == []


@pytest.mark.parametrize(
    "changes",
    [
        {"subject": "workload:mallory"},
        {"agent": OTHER},
        {"environment": "prod"},
        {"revoked_at": None},
        {"issuer": "mallory"},
    ],
)
def test_a_binding_that_the_ledger_does_not_know_is_not_obeyed_and_found(
    issuer: Issuer, settings: Settings, changes: dict[str, Any]
) -> None:
    key = Key.objects.get(subject=SUBJECT)
    if "revoked_at" in changes:
        credentials.revoke_key(key_id=key.key_id, actor="user:1")
    if "agent" in changes:
        changes = {"agent": Key.objects.get(subject=OTHERS).agent}
    Key.objects.filter(pk=key.pk).update(**changes)
    settings.DIR_TOKEN_ISSUERS = {
        **issuer.trusted(),
        "mallory": issuer.trusted(issuer="mallory")[issuer.name],
    }
    said = issuer.claims(changes.get("subject", SUBJECT), iss=changes.get("issuer", issuer.name))
    refuse(raw_token(said, issuer))
    assert findings.verify_all().findings


def test_the_environment_is_that_of_the_binding(issuer: Issuer) -> None:
    key = Key.objects.get(subject=SUBJECT)
    credentials.revoke_key(key_id=key.key_id, actor="user:1")
    bind(issuer, environment="prod")
    refused = shake(issuer.token(), environment="staging").problem(403, "UNAUTHORIZED")
    assert "for the environment prod" in refused["detail"]
    shake(issuer.token(environment="staging")).ok()
    assert LedgerEntry.objects.get(kind="session:opened").payload["environment"] == "prod"


def test_a_token_opens_sessions_and_does_nothing_else(issuer: Issuer) -> None:
    Caller(issuer.token()).post("/flows", {"trigger": "x"}).problem(401, "UNAUTHENTICATED")
    Caller(issuer.token()).get("/state/world").problem(401, "UNAUTHENTICATED")


def test_keys_are_read_once_and_again_for_a_new_one(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        shake(issuer.token()).ok()
    assert issuer.asked == 1
    issuer.begin_key("k2")
    monkeypatch.setattr(issued_tokens, "ASK_AGAIN_S", 0.0)
    shake(issuer.token(kid="k2")).ok()
    assert issuer.asked == 2


def test_invented_key_ids_make_us_ask_once(issuer: Issuer) -> None:
    shake(issuer.token()).ok()
    for number in range(5):
        shake(signed(issuer.claims(), issuer.keys["k1"][0], "ES256", kid=f"invented-{number}")).problem(
            401, "UNAUTHENTICATED"
        )
    assert issuer.asked == 1, "asked at all less than ASK_AGAIN_S ago"


def test_a_key_that_the_issuer_withdrew_ends(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    shake(issuer.token()).ok()
    issuer.key_set.clear()
    monkeypatch.setattr(issued_tokens, "ASK_AGAIN_S", 0.0)
    monkeypatch.setattr(issued_tokens, "FRESH_S", 0.0)
    shake(issuer.token()).problem(401, "UNAUTHENTICATED")


def test_an_issuer_that_is_down_is_outlived_for_a_while(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    shake(issuer.token()).ok()
    issuer.fails = True
    monkeypatch.setattr(issued_tokens, "ASK_AGAIN_S", 0.0)
    monkeypatch.setattr(issued_tokens, "FRESH_S", 0.0)
    shake(issuer.token()).ok()
    monkeypatch.setattr(issued_tokens, "USABLE_S", 0.0)
    shake(issuer.token()).problem(401, "UNAUTHENTICATED")


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"keys": 7}', b'{"keys": [7, {}]}', b"[" * 100_000])
def test_an_issuer_that_answers_anything_else_has_no_keys(
    issuer: Issuer, body: bytes, tmp_path: Path, settings: Settings
) -> None:
    place = tmp_path / "keys.json"
    place.write_bytes(body)
    settings.DIR_TOKEN_ISSUERS = issuer.trusted(keys_at=str(place))
    refuse(issuer.token())


def test_keys_may_be_in_a_file(issuer: Issuer, tmp_path: Path, settings: Settings) -> None:
    place = tmp_path / "keys.json"
    settings.DIR_TOKEN_ISSUERS = issuer.trusted(keys_at=str(place))
    refuse(issuer.token())
    place.write_text(json.dumps({"keys": issuer.key_set}))
    settings.DIR_TOKEN_ISSUERS = issuer.trusted(keys_at=str(place), max_age_s=3601)
    shake(issuer.token()).ok()
    assert issuer.asked == 0


def test_keys_are_not_fetched_from_where_no_call_may_go(issuer: Issuer, settings: Settings) -> None:
    settings.DIR_EGRESS_ALLOW = []
    refuse(issuer.token())
    assert issuer.asked == 0


def test_an_issuer_that_is_no_longer_trusted_is_nobody(issuer: Issuer, settings: Settings) -> None:
    settings.DIR_TOKEN_ISSUERS = {}
    refuse(issuer.token())


@pytest.mark.parametrize(
    "given",
    [
        {"issuer": "https://another.example"},
        {"subject": ""},
        {"subject": " x"},
        {"subject": "a\x00b"},
        {"subject": "x" * 256},
        {"agent_id": "nobody"},
        {"environment": "Prod"},
    ],
)
def test_what_cannot_be_bound_is_not(issuer: Issuer, given: dict[str, str]) -> None:
    before = Key.objects.count()
    assert isinstance(try_to_bind(issuer, **{"subject": "new", **given}), Problem)
    assert Key.objects.count() == before


def test_a_binding_and_a_secret_are_never_one_key(issuer: Issuer) -> None:
    bound = Key.objects.filter(subject=SUBJECT)
    secret = Key.objects.get(key_id=api_client.agent_key().partition(".")[0])
    for rows, changes in (
        (bound, {"secret_hash": "0" * 64}),
        (bound, {"issuer": ""}),
        (bound, {"agent": None, "feed": "prices"}),
        (Key.objects.filter(pk=secret.pk), {"secret_hash": ""}),
        (Key.objects.filter(pk=secret.pk), {"issuer": issuer.name, "subject": "x"}),
    ):
        with pytest.raises(IntegrityError), transaction.atomic():
            rows.update(**changes)


def test_a_command_binds_and_revoke_key_ends_it(issuer: Issuer) -> None:
    printed = StringIO()
    words = [TRADER, "--issuer", issuer.name, "--subject", "workload:new"]
    call_command("bind_token", *words, stdout=printed)
    shake(issuer.token("workload:new")).ok()
    with pytest.raises(CommandError, match="bound already"):
        call_command("bind_token", *words)
    call_command("revoke_key", printed.getvalue().strip())
    shake(issuer.token("workload:new")).problem(401, "UNAUTHENTICATED")
