"""The one way in for the bodies of requests: headers, then strict I-JSON, then a contract.

Contracts read the canonical bytes; what is wrong is said in our own words.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from django.http import HttpRequest
from pydantic import BaseModel, ValidationError

from runtime.contracts.problem import Problem, ProblemError, Violation
from runtime.contracts.problem_codes import ProblemCode
from runtime.kernel import ijson

Model = TypeVar("Model", bound=BaseModel)
MAX_VIOLATIONS = 20
_MEDIA_TYPE: Final = "application/json"
_MAX_POINTER_CHARS = 200

# By pydantic's error type. Its own texts quote the input and change with its versions: they are never sent.
_WORDS: dict[str, str] = {
    "missing": "is required",
    "extra_forbidden": "is not a known field",
    "string_type": "must be a string",
    "int_type": "must be an integer",
    "int_parsing": "must be an integer",
    "int_from_float": "must be an integer",
    "int_parsing_size": "must be an integer of fewer digits",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "tuple_type": "must be an array",
    "list_type": "must be an array",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have at least {min_length} items",
    "too_long": "must have at most {max_length} items",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "string_pattern_mismatch": "has characters that are not allowed",
}


def read(request: HttpRequest, model: type[Model]) -> tuple[Model, ijson.Checked]:
    """The body of a request as a contract, and its checked bytes.

    Raises:
        ProblemError: as `read_json`, and 422 INVALID_REQUEST where the JSON is not such a body.
    """
    checked = read_json(request)
    return check(checked, model), checked


def check_if_sent(request: HttpRequest, model: type[Model]) -> None:
    """Refuse a body that is not such a contract, as `read` does; a request may also have none."""
    if request.META.get("CONTENT_LENGTH") not in {None, "", "0"}:
        read(request, model)


def read_json(request: HttpRequest, *, media_types: Sequence[str] = (_MEDIA_TYPE,)) -> ijson.Checked:
    """The checked bytes of a request's body, whatever they say; `media_types` are those that it may have.

    Raises:
        ProblemError: 415 for another media type or a content encoding, 413 for a body over MAX_BYTES,
            400 for anything that is not I-JSON.
    """
    if request.headers.get("Content-Encoding", "identity").strip().lower() not in {"", "identity"}:
        raise _media("The body has a Content-Encoding. Send it uncompressed.")
    media_type, _, rest = request.headers.get("Content-Type", "").partition(";")
    if media_type.strip().lower() not in media_types:
        raise _media(f"Send the body with Content-Type: {' or '.join(media_types)}.")
    for parameter in filter(None, (part.strip().lower() for part in rest.split(";"))):
        name, _, text = parameter.partition("=")
        if name.strip() == "charset" and text.strip().strip('"') not in {"utf-8", "utf8"}:
            raise ijson.malformed("The body is declared in an encoding other than UTF-8. Send it as UTF-8.")
    if int(request.META.get("CONTENT_LENGTH") or 0) > ijson.MAX_BYTES:
        raise ijson.too_large()
    return ijson.parse(request.read(ijson.MAX_BYTES + 1))


def _media(detail: str) -> ProblemError:
    return ProblemError(Problem(code=ProblemCode.UNSUPPORTED_MEDIA_TYPE, detail=detail))


def check(checked: ijson.Checked, model: type[Model]) -> Model:
    """The checked body as a contract; raises ProblemError 422."""
    try:
        return model.model_validate_json(checked.canonical)
    except ValidationError as error:
        found = violations(error.errors(include_url=False, include_input=False), checked.value)
    detail = "The request body is invalid. See `violations`."
    raise ProblemError(Problem(code=ProblemCode.INVALID_REQUEST, detail=detail, violations=found))


def violations(errors: Sequence[Mapping[str, Any]], value: Any) -> tuple[Violation, ...]:
    """Errors of pydantic in our words: one per place, at most MAX_VIOLATIONS.

    `value` is what was validated. A union reports each of its branches: their words are joined.
    """
    by_place: dict[str, list[str]] = {}
    for error in errors:
        words = words_of(error)
        at_place = by_place.setdefault(_pointer(error["loc"], value), [])
        if words not in at_place:
            at_place.append(words)
    return tuple(
        Violation(pointer=pointer, message=", or ".join(words))
        for pointer, words in list(by_place.items())[:MAX_VIOLATIONS]
    )


def words_of(error: Mapping[str, Any]) -> str:
    """Our words for one error of pydantic."""
    return _WORDS.get(error["type"], "is not allowed here").format(**error.get("ctx", {}))


def _pointer(loc: Sequence[str | int], value: Any) -> str:
    """The JSON pointer of an error. Parts that name a union's branch and no member are left out."""
    pointer = ""
    for position, part in enumerate(loc):
        last = position == len(loc) - 1
        match value, part:
            case dict(), str() if part in value:
                value = value[part]
            case list(), int() if part < len(value):
                value = value[part]
            case _ if not (isinstance(value, dict) and last):
                continue
        pointer += "/" + str(part).replace("~", "~0").replace("/", "~1")
    return pointer[:_MAX_POINTER_CHARS]
