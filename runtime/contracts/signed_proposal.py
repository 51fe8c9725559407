"""What an agent signs of a proposal, where its manifest has a `proposal_key`, and what is kept of it.

Who proposes, by which call and under which key are part of it, so that a signature serves no other call. Of
an explanation only the SHA-256 is signed: parts of it may be replaced before it is stored.
"""

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import StringConstraints

from audit import canonical

# Ed25519, in base64: a public key of 32 bytes, and a signature of 64.
PublicKey = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9+/]{43}=$")]
Signature = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9+/]{86}==$")]
_SIGNATURE: Final = "signature"


def signed_bytes(*, agent_id: str, idempotency_key: str, path: str, proposal: Mapping[str, Any]) -> bytes:
    """The canonical JSON (RFC 8785) that is signed; `proposal` is the body of the call at `path`."""
    said = {name: value for name, value in proposal.items() if name != _SIGNATURE}
    explain = said.pop("explain", None)
    if explain is not None:
        said["explain_sha256"] = hashlib.sha256(str(explain).encode()).hexdigest()
    return canonical.encode(
        {"agent_id": agent_id, "idempotency_key": idempotency_key, "path": path, "proposal": said}
    )


def kept(signed: bytes, signature: str) -> bytes:
    """What is kept: the same with its signature."""
    return canonical.encode({**canonical.decode(signed), _SIGNATURE: signature})


def taken_apart(body: bytes) -> tuple[bytes, str]:
    """What was signed, and the signature, of what is kept.

    Raises:
        ValueError: for bytes that `kept` has not made.
    """
    said = canonical.decode(body)
    if not isinstance(said, dict) or not isinstance(said.get(_SIGNATURE), str):
        raise ValueError("this is no signed proposal")
    signature = said.pop(_SIGNATURE)
    return canonical.encode(said), signature
