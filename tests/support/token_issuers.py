"""A real issuer of tokens on loopback: it serves its key set over HTTP and signs with real keys."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from runtime.contracts.token_issuer import TrustedIssuer
from tests.support import misbehaving_targets

AUDIENCE = "dir-console"
PrivateKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey


def new_key(algorithm: str) -> PrivateKey:
    """A private key for an algorithm."""
    match algorithm:
        case "ES256":
            return ec.generate_private_key(ec.SECP256R1())
        case "ES384":
            return ec.generate_private_key(ec.SECP384R1())
        case "EdDSA":
            return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def jwk(key: PrivateKey, *, kid: str, **members: Any) -> dict[str, Any]:
    """The public key as a JSON Web Key."""
    match key:
        case rsa.RSAPrivateKey():
            found: dict[str, Any] = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
        case ec.EllipticCurvePrivateKey():
            found = ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
        case _:
            found = OKPAlgorithm.to_jwk(key.public_key(), as_dict=True)
    found.pop("key_ops", None)
    return {**found, "kid": kid, "use": "sig", **members}


@dataclass
class Issuer:
    """An issuer: `key_set` is what it serves now, `fails` makes it answer 503."""

    base_url: str = ""
    keys: dict[str, tuple[PrivateKey, str]] = field(default_factory=dict)
    key_set: list[dict[str, Any]] = field(default_factory=list)
    asked: int = 0
    fails: bool = False

    @property
    def name(self) -> str:
        return self.base_url

    @property
    def keys_at(self) -> str:
        return f"{self.base_url}/jwks.json"

    def trusted(self, **changes: Any) -> dict[str, TrustedIssuer]:
        """What DIR_TOKEN_ISSUERS holds where this one is trusted."""
        found = {"issuer": self.name, "audience": AUDIENCE, "keys_at": self.keys_at, "max_age_s": 3600}
        return {self.name: TrustedIssuer(**{**found, **changes})}

    def begin_key(self, kid: str, algorithm: str = "ES256", **members: Any) -> PrivateKey:
        """A new key, served from now on."""
        key = new_key(algorithm)
        self.keys[kid] = (key, algorithm)
        self.key_set.append(jwk(key, kid=kid, **members))
        return key

    def token(self, subject: str = "workload:trader", *, kid: str = "k1", **claims: Any) -> str:
        """A token that is good for five minutes, but for `claims`; None leaves a claim out."""
        key, algorithm = self.keys[kid]
        return signed(self.claims(subject, **claims), key, algorithm, kid=kid)

    def claims(self, subject: str = "workload:trader", **changes: Any) -> dict[str, Any]:
        """What such a token says."""
        now = int(time.time())
        found = {"iss": self.name, "sub": subject, "aud": AUDIENCE, "iat": now, "exp": now + 300, **changes}
        return {name: value for name, value in found.items() if value is not None}

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Serve the key set."""
        self.asked += 1
        body = json.dumps({"keys": self.key_set}).encode()
        misbehaving_targets.answer(503 if self.fails else 200, body)(request)


def signed(claims: dict[str, Any], key: Any, algorithm: str, **headers: Any) -> str:
    """A token of any content and header."""
    return jwt.encode(claims, key, algorithm=algorithm, headers=headers)


@contextmanager
def running() -> Iterator[Issuer]:
    """An issuer with one key, `k1`."""
    issuer = Issuer()
    with misbehaving_targets.stand_in(issuer.answer) as server:
        issuer.base_url = server.base_url
        issuer.begin_key("k1")
        yield issuer
