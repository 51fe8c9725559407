"""DSSE: the envelope in which a record leaves the house (secure-systems-lab/dsse, protocol 1.0)."""

import base64
from typing import Any, Final

PAYLOAD_TYPE: Final = "application/vnd.dir-console.decision-record+json"


def statement(body: bytes) -> bytes:
    """The bytes that are signed for `body`: the pre-authentication encoding of DSSE."""
    name = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %b %d %b" % (len(name), name, len(body), body)


def envelope(body: bytes, *, signature: bytes, key_id: str) -> dict[str, Any]:
    """The envelope of a signed body."""
    return {
        "payload": base64.b64encode(body).decode(),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [{"keyid": key_id, "sig": base64.b64encode(signature).decode()}],
    }
