"""The public keys of an issuer of tokens: one GET over the guarded transport, or a file."""

from pathlib import Path
from typing import Final

import httpx2
from django.conf import settings

from runtime.execution.adapters import egress, transport

MOST_BYTES: Final = 256 * 1024
TIMEOUT_S: Final = 3.0


def fetch(url: str) -> bytes | str:
    """The body of a 200 answer; else in a few words why there is none. Redirects are not followed."""
    trip = transport.Trip(timeout_s=TIMEOUT_S)
    try:
        with (
            transport.client(egress=egress.rule(settings.DIR_EGRESS_ALLOW), trip=trip) as client,
            client.stream("GET", url, headers={"Accept": "application/json"}) as answer,
        ):
            if answer.status_code != httpx2.codes.OK:
                return f"the issuer answered {answer.status_code}"
            body = bytearray()
            for piece in answer.iter_bytes():
                body += piece
                if len(body) > MOST_BYTES:
                    return f"the keys are more than {MOST_BYTES} bytes"
            return bytes(body)
    except egress.EgressRefusedError:
        return egress.REFUSED
    except egress.UnresolvedError:
        return "the host name does not resolve"
    except (httpx2.TransportError, httpx2.InvalidURL, httpx2.DecodingError) as error:
        return f"no answer arrived ({type(error).__name__})"


def read(path: str) -> bytes | str:
    """The bytes of a file; else in a few words why there are none."""
    try:
        with Path(path).open("rb") as file:
            body = file.read(MOST_BYTES + 1)
    except OSError as error:
        return f"the file cannot be read ({error.strerror})"
    return body if len(body) <= MOST_BYTES else f"the keys are more than {MOST_BYTES} bytes"
