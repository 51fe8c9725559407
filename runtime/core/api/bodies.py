"""The one way in for the bodies of requests: headers first, then strict I-JSON (`runtime.kernel.ijson`)."""

from typing import Final

from django.http import HttpRequest

from runtime.contracts.problem import Problem, ProblemError
from runtime.kernel import ijson

_MEDIA_TYPE: Final = "application/json"


def read(request: HttpRequest) -> ijson.Checked:
    """The checked body of a request.

    Raises:
        ProblemError: 415 for another media type or a content encoding, 413 for a body over MAX_BYTES,
            400 for anything that is not I-JSON.
    """
    if request.headers.get("Content-Encoding", "identity").strip().lower() not in {"", "identity"}:
        raise _media("The body has a Content-Encoding. Send it uncompressed.")
    media_type, _, rest = request.headers.get("Content-Type", "").partition(";")
    if media_type.strip().lower() != _MEDIA_TYPE:
        raise _media("Send the body with Content-Type: application/json.")
    for parameter in filter(None, (part.strip().lower() for part in rest.split(";"))):
        name, _, text = parameter.partition("=")
        if name.strip() == "charset" and text.strip().strip('"') not in {"utf-8", "utf8"}:
            raise ijson.malformed("The body is declared in an encoding other than UTF-8. Send it as UTF-8.")
    if int(request.META.get("CONTENT_LENGTH") or 0) > ijson.MAX_BYTES:
        raise ijson.too_large()
    return ijson.parse(request.read(ijson.MAX_BYTES + 1))


def _media(detail: str) -> ProblemError:
    return ProblemError(Problem(status=415, code="UNSUPPORTED_MEDIA_TYPE", detail=detail))
