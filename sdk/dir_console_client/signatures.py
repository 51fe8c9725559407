"""Signatures of proposals, where the manifest has a `proposal_key`. Needs `dir-console-client[signing]`.

`python -m dir_console_client.signatures` prints a new pair: the private key for the agent's environment, the
public one for its manifest.
"""

import base64
import hashlib
import secrets
from collections.abc import Mapping
from typing import Any, Final

import rfc8785
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

SEED_BYTES: Final = 32


class SigningKey:
    """An Ed25519 key; `private` is its seed, 32 bytes in base64. Keep it out of code and logs.

    Raises:
        ValueError: for anything else.
    """

    def __init__(self, private: str) -> None:
        try:
            self._key = Ed25519PrivateKey.from_private_bytes(base64.b64decode(private, validate=True))
        except ValueError:
            raise ValueError("a signing key is 32 bytes in base64") from None

    @property
    def public(self) -> str:
        """The public key, as a manifest names it."""
        raw = serialization.Encoding.Raw, serialization.PublicFormat.Raw
        return base64.b64encode(self._key.public_key().public_bytes(*raw)).decode()

    def sign(self, *, agent_id: str, idempotency_key: str, path: str, proposal: Mapping[str, Any]) -> str:
        """The `signature` of the body of a call."""
        said = dict(proposal)
        if (explain := said.pop("explain", None)) is not None:
            said["explain_sha256"] = hashlib.sha256(explain.encode()).hexdigest()
        signed: dict[str, Any] = {
            "agent_id": agent_id,
            "idempotency_key": idempotency_key,
            "path": path,
            "proposal": said,
        }
        return base64.b64encode(self._key.sign(rfc8785.dumps(signed))).decode()


if __name__ == "__main__":
    private = base64.b64encode(secrets.token_bytes(SEED_BYTES)).decode()
    print(f"export DIR_AGENT_SIGNING_KEY={private}")
    print(f"proposal_key: {SigningKey(private).public}")
