"""DSSE: the envelope in which a record or a graph leaves the house (protocol 1.0 of secure-systems-lab)."""

import base64
from typing import Any, Final

PAYLOAD_TYPE: Final = "application/vnd.dir-console.decision-record+json"


def statement(body: bytes, payload_type: str = PAYLOAD_TYPE) -> bytes:
    """The bytes that are signed for `body`: the pre-authentication encoding of DSSE."""
    name = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(name), name, len(body), body)


def envelope(
    body: bytes, *, signature: bytes, key_id: str, payload_type: str = PAYLOAD_TYPE
) -> dict[str, Any]:
    """The envelope of a signed body."""
    return {
        "payload": base64.b64encode(body).decode(),
        "payloadType": payload_type,
        "signatures": [{"keyid": key_id, "sig": base64.b64encode(signature).decode()}],
    }
