"""Read the decision form into a Wish, or a Problem that says what to correct.

Identity never comes from here: the view takes it from the session.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.http import QueryDict

from audit import canonical
from escalations.contracts import Action
from escalations.services.decision_request import DecisionRequest, StatementRequest
from runtime.contracts.problem import Problem, ProblemError
from runtime.contracts.states import Effect
from runtime.kernel import ijson

LONGEST_TEXT = 4000
TYPED = "param:"
TRUE_WORDS = frozenset({"on", "true", "1"})


def read_wish(post: QueryDict, *, params_schema: Mapping[str, Any]) -> DecisionRequest | Problem:
    """The decision as the form states it. `params_schema` is that of the current evidence."""
    if any("\x00" in value for value in post.values() if isinstance(value, str)):
        return _bad("TEXT_UNREADABLE", "A field contains a NUL character. Remove it.")
    action = post.get("action", "")
    if action not in Action.values():
        return _bad("ACTION_UNKNOWN", "Choose one of the actions offered on the page.")
    version = post.get("version", "")
    if not (version.isascii() and version.isdigit()) or len(version) > len("4294967295"):
        return _bad("VERSION_UNREADABLE", "version must be the whole number shown on the page.")
    return _read_fields(post, Action(action), int(version), params_schema)


def _read_fields(
    post: QueryDict, action: Action, version: int, params_schema: Mapping[str, Any]
) -> DecisionRequest | Problem:
    params = _params(post, params_schema)
    if isinstance(params, Problem):
        return params
    # The receipt found at the target: a JSON object, or plain text that becomes its `reference`.
    found = post.get("receipt", "").strip()
    if _is_too_long(found):
        return _bad("TEXT_TOO_LONG", f"The receipt exceeds {LONGEST_TEXT} characters. Shorten it.")
    receipt: dict[str, Any] | Problem | None = None
    if found:
        receipt = _json_object(found, "receipt") if found.startswith("{") else {"reference": found}
    if isinstance(receipt, Problem):
        return receipt
    effect = read_effect(post)
    if isinstance(effect, Problem):
        return effect
    if action.spec.asks:
        # From its own field: agents never see a reason. A question is sent exactly as written, or not at all.
        question = post.get("question", "").strip() or post.get("justification", "").strip()
        justification = question.replace("\r\n", "\n")
        if len(justification) > LONGEST_TEXT:
            return _bad("TEXT_TOO_LONG", f"The question exceeds {LONGEST_TEXT} characters. Shorten it.")
    else:
        # It is signed and kept: exactly as written, or not at all.
        justification = post.get("justification", "").strip()
        if _is_too_long(justification):
            return _bad("TEXT_TOO_LONG", f"The reason exceeds {LONGEST_TEXT} characters. Shorten it.")
    # One condition per line; the text is never cut: a truncated condition would be a different one.
    conditions = post.get("conditions", "")
    if len(conditions) > LONGEST_TEXT:
        return _bad("TEXT_TOO_LONG", f"The conditions exceed {LONGEST_TEXT} characters. Shorten them.")
    return DecisionRequest(
        action=action,
        evidence_hash=post.get("evidence_hash", ""),
        version=version,
        impact=post.get("impact", ""),
        justification=justification,
        conditions=tuple(line.strip() for line in conditions.splitlines() if line.strip()),
        params=params,
        receipt=receipt,
        typed_again=post.get("typed_again", "")[:LONGEST_TEXT],
        effect=effect,
    )


def put_in(post: QueryDict) -> QueryDict:
    """Return the form with the calculated value that a person chose: in its field, or in the JSON text.

    `put_in` is `name=value` as offered by a dry run. The rest of the form does not change, and the value is
    read and evaluated like any typed one.
    """
    name, _, value = post.get("put_in", "").rpartition("=")
    if not name:
        return post
    filled = post.copy()
    del filled["put_in"]
    text = post.get("params", "").strip()
    given = _json_object(text, "params") if text else {}
    if isinstance(given, Problem):
        return filled
    if text:
        number = _typed(value, {"type": "number"})
        filled["params"] = canonical.encode({**given, name: number}).decode()
    else:
        filled[f"{TYPED}{name}"] = value
    return filled


def read_effect(post: QueryDict) -> Effect | Problem | None:
    """Return the stated effect of a call in doubt; None if the form states none."""
    text = post.get("effect", "")
    if not text:
        return None
    if text not in Effect.values():
        return _bad("EFFECT_UNREADABLE", f"effect must be one of {', '.join(Effect.values())}.")
    return Effect(text)


def read_said(post: QueryDict, *, intent_id: UUID, number: int) -> StatementRequest | Problem:
    """Read the statement about one call that was left in doubt."""
    effect = read_effect(post)
    if isinstance(effect, Problem):
        return effect
    reason = post.get("reason", "").strip()
    if _is_too_long(reason):
        return _bad("TEXT_TOO_LONG", f"The reason exceeds {LONGEST_TEXT} characters. Shorten it.")
    return StatementRequest(intent_id=intent_id, number=number, effect=effect, reason=reason)


def _params(post: QueryDict, params_schema: Mapping[str, Any]) -> dict[str, Any] | Problem | None:
    """Read the JSON text if there is any, else the typed fields; None if neither was sent."""
    text = post.get("params", "").strip()
    if text:
        return _json_object(text, "params")
    typed = {key.removeprefix(TYPED): value for key, value in post.items() if key.startswith(TYPED)}
    if not typed:
        return None
    properties = params_schema.get("properties", {})
    found = {}
    for name, value in typed.items():
        parsed = _typed(str(value).strip(), properties.get(name))
        if parsed is not None:
            found[name] = parsed
    return found


def _typed(text: str, schema: Any) -> Any:
    """Convert a field's text to its schema type; what does not fit stays text, for the gate to reject."""
    if not text:
        return None
    wanted = _type_of(schema)
    if wanted == "boolean":
        return text.lower() in TRUE_WORDS
    if wanted in {"integer", "number", "array", "object"}:
        try:
            return ijson.parse(text.encode()).value
        except ProblemError:
            return text
    if wanted is None and isinstance(schema, Mapping):
        options = {
            option if isinstance(option, str) else canonical.encode(option).decode(): option
            for option in schema.get("enum") or ()
        }
        return options.get(text, text)
    return text


def _type_of(schema: Any) -> str | None:
    """Return the one type of a property besides null; None if it has no type, or several."""
    named = schema.get("type") if isinstance(schema, Mapping) else None
    types = [item for item in named if item != "null"] if isinstance(named, list) else [named]
    return types[0] if len(types) == 1 else None


def _json_object(text: str, name: str) -> dict[str, Any] | Problem:
    try:
        value = ijson.parse(text.encode("utf-8", "surrogatepass")).value
    except ProblemError as error:
        return _bad("JSON_UNREADABLE", f"{name}: {error.problem.detail}")
    if not isinstance(value, dict):
        return _bad("JSON_UNREADABLE", f"{name} must be a JSON object.")
    return value


def _bad(code: str, detail: str) -> Problem:
    return Problem(status=400, code=code, detail=detail)


def _is_too_long(text: str) -> bool:
    """Whether a text exceeds what its field takes. A browser counts an end of line once and sends two."""
    return len(text.replace("\r\n", "\n")) > LONGEST_TEXT
