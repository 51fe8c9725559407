"""The forms of the decision page and of the list of calls in doubt: lengths, choices, and what to correct.

Identity never comes from here: the view takes it from the session.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar
from uuid import UUID

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict

from audit import canonical
from escalations.contracts import Action
from escalations.services.bulk_deciding import BulkItem
from escalations.services.decision_request import DecisionRequest, StatementRequest
from escalations.services.task_answers import TaskAnswer
from runtime.contracts.problem import Problem, ProblemError
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import Effect
from runtime.core.views import query_params
from runtime.core.views.forms import ActionForm
from runtime.kernel import ijson

LONGEST_TEXT = 4000
TYPED = "param:"
DAY_S = 86_400
# The parts of the page that a browser reports as opened, or as seen.
PANES = ("effect", "limits", "facts", "advice", "history", "claims", "bundle", "explain", "checks")
TRUE_WORDS = frozenset({"on", "true", "1"})


class JsonObjectField(forms.CharField):
    """A JSON object as text; None where there is none."""

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value) or ""
        return _read_object(text, "params") if text else None


class ReceiptField(forms.CharField):
    """The receipt found at the target: a JSON object, or plain text that becomes its `reference`."""

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value) or ""
        _check_length(text, "The receipt")
        if text.startswith("{"):
            return _read_object(text, "receipt")
        return {"reference": text} if text else None


class ConditionsField(forms.CharField):
    """One condition per line. The text is never cut: a truncated condition would be a different one."""

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value) or ""
        if len(text) > LONGEST_TEXT:
            words = f"The conditions exceed {LONGEST_TEXT} characters. Shorten them."
            raise ValidationError(words, code=ProblemCode.TEXT_TOO_LONG)
        return tuple(line.strip() for line in text.splitlines() if line.strip())


class ClientReportField(forms.CharField):
    """What the browser says of the reading: seconds in sight, and the parts that were opened.

    Nobody decides by it, so what cannot be read is nothing.
    """

    def to_python(self, value: Any) -> Any:
        try:
            said = ijson.parse((super().to_python(value) or "").encode("utf-8", "surrogatepass")).value
        except ProblemError:
            return None
        if not isinstance(said, dict):
            return None
        seconds, panes = said.get("visible_s"), said.get("panes")
        is_time = isinstance(seconds, int) and not isinstance(seconds, bool) and 0 <= seconds <= DAY_S
        named = {item for item in panes if item in PANES} if isinstance(panes, list) else set()
        return {"visible_s": seconds if is_time else None, "panes": sorted(named)}


class EffectField(forms.ChoiceField):
    """The stated effect of a call in doubt; None where the form states none."""

    def __init__(self) -> None:
        words = f"effect must be one of {', '.join(Effect.values())}."
        super().__init__(required=False, choices=Effect.pairs(), error_messages={"invalid_choice": words})

    def clean(self, value: Any) -> Effect | None:
        text = super().clean(value)
        return Effect(text) if text else None


class DecisionForm(ActionForm):
    """One decision. `params_schema` is that of the current evidence: it types the fields `param:*`.

    `proposed` are the parameters that were shown: a field that was left as it was keeps its value exactly.
    """

    codes: ClassVar = {
        "action": ProblemCode.ACTION_UNKNOWN,
        "version": ProblemCode.VERSION_UNREADABLE,
        "effect": ProblemCode.EFFECT_UNREADABLE,
        "instruction": ProblemCode.INSTRUCTION_UNKNOWN,
    }

    action = forms.ChoiceField(
        choices=Action.pairs(),
        error_messages=dict.fromkeys(
            ("required", "invalid_choice"), "Choose one of the actions offered on the page."
        ),
    )
    version = forms.RegexField(
        r"\A[0-9]{1,10}\Z",
        strip=False,
        error_messages=dict.fromkeys(
            ("required", "invalid"), "version must be the whole number shown on the page."
        ),
    )
    evidence_hash = forms.CharField(required=False, strip=False)
    impact = forms.CharField(required=False, strip=False)
    params = JsonObjectField(required=False)
    receipt = ReceiptField(required=False)
    instruction = forms.CharField(required=False, max_length=64)
    effect = EffectField()
    question = forms.CharField(required=False)
    justification = forms.CharField(required=False)
    conditions = ConditionsField(required=False, strip=False)
    typed_again = forms.CharField(required=False, strip=False)
    client_reported = ClientReportField(required=False)
    checked = forms.CharField(required=False)

    def __init__(
        self, post: QueryDict, *, params_schema: Mapping[str, Any], proposed: Mapping[str, Any]
    ) -> None:
        super().__init__(post)
        self.params_schema, self.proposed = params_schema, proposed

    def clean(self) -> dict[str, Any]:
        """Check the whole: no NUL in any field, and the length of the text that the action is given with."""
        values = self.cleaned_data
        if any("\x00" in value for value in self.data.values() if isinstance(value, str)):
            raise ValidationError(
                "A field contains a NUL character. Remove it.", code=ProblemCode.TEXT_UNREADABLE
            )
        if self.errors:
            return values
        if Action(values["action"]).spec.asks:
            # From its own field: agents never see a reason. It is sent exactly as written, or not at all.
            question = values["question"] or values["justification"]
            values["justification"] = question.replace("\r\n", "\n")
            _check_length(values["justification"], "The question")
        else:
            # They are signed and kept: exactly as written, or not at all.
            _check_length(values["justification"], "The reason")
            _check_length(values["checked"], "The answer")
        return values

    def read(self) -> DecisionRequest | Problem:
        """The decision as the form states it, or what to correct."""
        if not self.is_valid():
            return self.problem()
        values = self.cleaned_data
        return DecisionRequest(
            action=Action(values["action"]),
            evidence_hash=values["evidence_hash"],
            version=int(values["version"]),
            impact=values["impact"],
            justification=values["justification"],
            conditions=values["conditions"],
            params=self._typed_params() if values["params"] is None else values["params"],
            receipt=values["receipt"],
            typed_again=values["typed_again"][:LONGEST_TEXT],
            instruction=values["instruction"],
            effect=values["effect"],
            client_reported=values["client_reported"],
            checked=values["checked"],
        )

    def _typed_params(self) -> dict[str, Any] | None:
        """The fields `param:*` as their schema has them; None if none was sent."""
        typed = {key.removeprefix(TYPED): value for key, value in self.data.items() if key.startswith(TYPED)}
        if not typed:
            return None
        properties = self.params_schema.get("properties", {})
        found = {
            name: before
            if isinstance(before := self.proposed.get(name), str) and _lines(str(text)) == _lines(before)
            else _typed(_lines(str(text)), properties.get(name))
            for name, text in typed.items()
        }
        return {name: value for name, value in found.items() if value is not None}


class TaskForm(ActionForm):
    """The answer to a task: the fields `param:*` as its schema types them, or all of it as JSON."""

    task_hash = forms.CharField(required=False, strip=False)
    answer = JsonObjectField(required=False)

    def __init__(self, post: QueryDict, *, schema: Mapping[str, Any]) -> None:
        super().__init__(post)
        self.schema = schema

    def clean(self) -> dict[str, Any]:
        """No NUL in any field, and no text that is longer than a field takes."""
        for value in self.data.values():
            if isinstance(value, str) and "\x00" in value:
                said = "A field contains a NUL character. Remove it."
                raise ValidationError(said, code=ProblemCode.TEXT_UNREADABLE)
            _check_length(str(value), "A field")
        return self.cleaned_data

    def read(self) -> TaskAnswer | Problem:
        """The answer as the form states it, or what to correct."""
        if not self.is_valid():
            return self.problem()
        given = self.cleaned_data["answer"]
        return TaskAnswer(
            task_hash=self.cleaned_data["task_hash"], answer=self._typed() if given is None else given
        )

    def _typed(self) -> dict[str, Any]:
        properties = self.schema.get("properties", {})
        fields = ((key, str(text)) for key, text in self.data.items() if key.startswith(TYPED))
        found = {
            name: _typed(_lines(text), properties.get(name))
            for name, text in ((key.removeprefix(TYPED), text) for key, text in fields)
        }
        return {name: value for name, value in found.items() if value is not None}


class StatementForm(ActionForm):
    """The statement about one call that was left in doubt."""

    # What is wrong with a reason, and is not its length, is a NUL character.
    codes: ClassVar = {"effect": ProblemCode.EFFECT_UNREADABLE, "reason": ProblemCode.TEXT_UNREADABLE}

    effect = EffectField()
    reason = forms.CharField(required=False)

    def clean_reason(self) -> str:
        """The reason is signed and kept: exactly as written, or not at all."""
        reason: str = self.cleaned_data["reason"]
        _check_length(reason, "The reason")
        return reason

    def read(self, *, intent_id: UUID, number: int) -> StatementRequest | Problem:
        """The statement about call `number` of an intent, or what to correct."""
        if not self.is_valid():
            return self.problem()
        values = self.cleaned_data
        return StatementRequest(
            intent_id=intent_id, number=number, effect=values["effect"], reason=values["reason"]
        )


@dataclass(frozen=True, kw_only=True)
class BulkRequest:
    """What a confirmed form on several escalations contains."""

    action: Action
    justification: str
    items: tuple[BulkItem, ...]


class BulkForm(ActionForm):
    """One action on several escalations; the fields `hash:ID`, `version:ID` and `impact:ID` bind each."""

    codes: ClassVar = {"action": ProblemCode.ACTION_UNKNOWN, "justification": ProblemCode.TEXT_UNREADABLE}

    action = forms.ChoiceField(
        choices=Action.pairs(),
        error_messages=dict.fromkeys(
            ("required", "invalid_choice"), "Choose one of the actions offered on the page."
        ),
    )
    justification = forms.CharField(required=False, strip=False)

    def __init__(self, post: QueryDict) -> None:
        super().__init__(post)
        self.post = post

    def clean_justification(self) -> str:
        """The reason is signed and kept with each: exactly as written, or not at all."""
        reason: str = self.cleaned_data["justification"]
        _check_length(reason, "The reason")
        return reason

    def read(self) -> BulkRequest | Problem:
        """The confirmed items as they were shown, or what to correct."""
        if not self.is_valid():
            return self.problem()
        items = []
        for text in self.post.getlist("escalation"):
            escalation_id, version = query_params.uuid(text), self.post.get(f"version:{text}", "")
            if escalation_id is None or not query_params.is_whole(version):
                return Problem(
                    code=ProblemCode.SELECTION_WRONG,
                    detail="An item of the form cannot be read. Go back to the queue and select again.",
                )
            items.append(
                BulkItem(
                    escalation_id=escalation_id,
                    evidence_hash=self.post.get(f"hash:{text}", ""),
                    version=int(version),
                    impact=self.post.get(f"impact:{text}", ""),
                )
            )
        return BulkRequest(
            action=Action(self.cleaned_data["action"]),
            justification=self.cleaned_data["justification"],
            items=tuple(items),
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
    try:
        given = _read_object(text, "params") if text else {}
    except ValidationError:
        return filled
    if text:
        number = _typed(value, {"type": "number"})
        filled["params"] = canonical.encode({**given, name: number}).decode()
    else:
        filled[f"{TYPED}{name}"] = value
    return filled


def _lines(text: str) -> str:
    """A text as every browser sends it back, whatever ends its lines, without blanks around it."""
    return "\n".join(text.splitlines()).strip()


def _typed(text: str, schema: Any) -> Any:
    """Convert a field's text to its schema type; what does not fit stays text, for the gate to reject."""
    if not text:
        return None
    # The one type besides null; None if it has no type, or several.
    named = schema.get("type") if isinstance(schema, Mapping) else None
    types = [item for item in named if item != "null"] if isinstance(named, list) else [named]
    wanted = types[0] if len(types) == 1 else None
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


def _read_object(text: str, name: str) -> dict[str, Any]:
    try:
        value = ijson.parse(text.encode("utf-8", "surrogatepass")).value
    except ProblemError as error:
        raise ValidationError(f"{name}: {error.problem.detail}", code=ProblemCode.JSON_UNREADABLE) from error
    if not isinstance(value, dict):
        raise ValidationError(f"{name} must be a JSON object.", code=ProblemCode.JSON_UNREADABLE)
    return value


def _check_length(text: str, what: str) -> None:
    """Refuse a text that exceeds what its field takes. A browser counts an end of line once and sends two."""
    if len(text.replace("\r\n", "\n")) > LONGEST_TEXT:
        raise ValidationError(
            f"{what} exceeds {LONGEST_TEXT} characters. Shorten it.", code=ProblemCode.TEXT_TOO_LONG
        )
