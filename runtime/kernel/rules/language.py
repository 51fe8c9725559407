"""CEL, compiled once and evaluated on JSON values.

The rest of the runtime sees plain JSON in, plain JSON out, and one exception with words of our own:
the library's texts change with its versions, and a stored verdict must not.
"""

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import cel

from audit import canonical
from runtime.kernel.rules import cel_tokens, members


class ErrorCode(StrEnum):
    """Why an expression gave no value."""

    SYNTAX = "SYNTAX"
    UNKNOWN_NAME = "UNKNOWN_NAME"
    UNKNOWN_FIELD = "UNKNOWN_FIELD"
    INDEX = "INDEX"
    DIVISION_BY_ZERO = "DIVISION_BY_ZERO"
    OVERFLOW = "OVERFLOW"
    TYPE = "TYPE"
    FUNCTION = "FUNCTION"
    NOT_BOOLEAN = "NOT_BOOLEAN"
    NOT_TEXT = "NOT_TEXT"
    NOT_NUMBER = "NOT_NUMBER"
    NOT_JSON = "NOT_JSON"
    UNSAFE_VALUE = "UNSAFE_VALUE"
    INTERNAL = "INTERNAL"


_WORDS: dict[ErrorCode, str] = {
    ErrorCode.SYNTAX: "the expression cannot be read",
    ErrorCode.UNKNOWN_NAME: "the expression uses a name that is not known",
    ErrorCode.UNKNOWN_FIELD: "the expression reads a field that is not there",
    ErrorCode.INDEX: "the expression reads past the end of a list",
    ErrorCode.DIVISION_BY_ZERO: "the expression divides by zero",
    ErrorCode.OVERFLOW: "a number in the expression leaves the range of integers",
    ErrorCode.TYPE: "the expression combines values of types that do not fit",
    ErrorCode.FUNCTION: "a function is unknown or cannot take what it was given",
    ErrorCode.NOT_BOOLEAN: "the expression did not give true or false",
    ErrorCode.NOT_TEXT: "the expression did not give text",
    ErrorCode.NOT_NUMBER: "the expression did not give a number",
    ErrorCode.NOT_JSON: "the expression gave a value that JSON cannot hold",
    ErrorCode.UNSAFE_VALUE: "the expression gave a value that may not stand in this place",
    ErrorCode.INTERNAL: "the expression could not be evaluated",
}


class ExpressionError(Exception):
    """An expression gave no usable value. `code` and `message` are stable; `__cause__` is for logs."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(_WORDS[code])
        self.code = code
        self.message = _WORDS[code]


# Most specific first: KeyError and IndexError are LookupErrors, ZeroDivisionError an ArithmeticError.
_CODES_BY_EXCEPTION: tuple[tuple[type[Exception], ErrorCode], ...] = (
    (KeyError, ErrorCode.UNKNOWN_FIELD),
    (IndexError, ErrorCode.INDEX),
    (ZeroDivisionError, ErrorCode.DIVISION_BY_ZERO),
    (OverflowError, ErrorCode.OVERFLOW),
    (TypeError, ErrorCode.TYPE),
    (RuntimeError, ErrorCode.FUNCTION),
)


# A map of no more members is carried as quickly whole.
_FEW_MEMBERS = 8


class Names(dict[str, Any]):
    """Values of names for many expressions: each is carried into Rust once, when it is first read.

    Most of an evaluation's time is this carrying. So of a large map only what the first expression reads is
    carried; all of it, once another reads more. The values must not change after the first use.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._context = cel.Context()
        self._carried: set[str] = set()
        self._in_part: dict[str, frozenset[str]] = {}

    def put(self, name: str, value: Any) -> None:
        """Give a name another value; all others stay carried."""
        self[name] = value
        self._carried.discard(name)
        self._in_part.pop(name, None)

    def context(
        self, wanted: frozenset[str], members: Mapping[str, frozenset[str]] = MappingProxyType({})
    ) -> cel.Context:
        """The library's form of these names, with at least those of `wanted` that exist.

        Of a name that is in `members` no more than those need be there.
        """
        for name in wanted - self._carried:
            if name in self:
                self._carry(name, members.get(name))
        return self._context

    def _carry(self, name: str, wanted: frozenset[str] | None) -> None:
        value, held = self[name], self._in_part.get(name)
        if held is not None and wanted is not None and wanted <= held:
            return
        if wanted is None or held is not None or not isinstance(value, dict) or len(value) <= _FEW_MEMBERS:
            self._context.add_variable(name, value)
            self._carried.add(name)
        else:
            self._context.add_variable(name, {member: value[member] for member in wanted if member in value})
            self._in_part[name] = wanted


def shared(names: Mapping[str, Any]) -> Names:
    """`names` as `Names`; the same object when they are that already."""
    return names if isinstance(names, Names) else Names(names)


class Expression:
    """A compiled expression; immutable, shared between threads."""

    __slots__ = ("_path", "_program", "bound_names", "members", "names", "source")

    def __init__(self, source: str) -> None:
        """Compile `source`.

        Raises:
            ExpressionError: SYNTAX.
        """
        self.source = source
        try:
            self._program = cel.compile(source)
            names = frozenset(self._program.variables())
        except Exception as error:
            raise ExpressionError(ErrorCode.SYNTAX) from error
        self.bound_names = cel_tokens.bound_names(source)
        self.names = names
        self.members = members.read_alone(source)
        self._path = members.path(source)

    def evaluate(self, names: Mapping[str, Any]) -> Any:
        """The value over `names` (JSON values) as a plain JSON value; integers stay integers.

        Raises:
            ExpressionError: whatever goes wrong.
        """
        if self._path:
            found = _at(self._path, names)
            if found is not None:
                return found
        try:
            value = self._program.execute(shared(names).context(self.names, self.members))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic in the extension is not an Exception
            known = (code for exception, code in _CODES_BY_EXCEPTION if isinstance(error, exception))
            code = next(known, ErrorCode.INTERNAL)
            # The library has one exception for an unknown function and an unknown name.
            if code is ErrorCode.FUNCTION and self.names - self.bound_names - names.keys():
                code = ErrorCode.UNKNOWN_NAME
            raise ExpressionError(code) from error
        return as_json(value)


def _at(path: Sequence[str], names: Mapping[str, Any]) -> str | int | None:
    """The text, boolean or number that is found by going through members, as the library finds it.

    None where there is none, which is for the library to say, and for other values.
    """
    found: Any = names.get(path[0])
    for member in path[1:]:
        if type(found) is not dict:
            return None
        found = found.get(member)
    kind: type = type(found)
    is_safe = kind is int and abs(found) <= canonical.MAX_SAFE_INTEGER
    return found if is_safe or kind is str or kind is bool else None


@lru_cache(maxsize=4096)
def compile_expression(source: str) -> Expression:
    """The compiled form of `source`, made once per process.

    Raises:
        ExpressionError: SYNTAX.
    """
    return Expression(source)


def require(source: str, names: Mapping[str, Any]) -> bool:
    """Whether a condition holds. Only exactly `true` holds; anything but a boolean is an error.

    Raises:
        ExpressionError: NOT_BOOLEAN, or why there is no value.
    """
    value = compile_expression(source).evaluate(names)
    if not isinstance(value, bool):
        raise ExpressionError(ErrorCode.NOT_BOOLEAN)
    return value


def text(source: str, names: Mapping[str, Any]) -> str:
    """The text an expression gives; an integer is written in digits.

    Raises:
        ExpressionError: NOT_TEXT, or why there is no value.
    """
    value = compile_expression(source).evaluate(names)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise ExpressionError(ErrorCode.NOT_TEXT)
    return value


def as_json(value: Any) -> Any:
    """A result of the library as plain JSON.

    Raises:
        ExpressionError: NOT_JSON for bytes, times, optionals, NaN and maps keyed by anything but text;
            OVERFLOW for an integer past 2^53-1, which JSON readers would round.
    """
    kind = type(value)
    if kind is bool or kind is str:  # as below: most results are one of these
        return value
    match value:
        case None | bool() | str():
            return value
        case int():
            if abs(value) > canonical.MAX_SAFE_INTEGER:
                raise ExpressionError(ErrorCode.OVERFLOW)
            return value
        case float():
            if not math.isfinite(value):
                raise ExpressionError(ErrorCode.NOT_JSON)
            return value
        case list():
            return [as_json(item) for item in value]
        case dict():
            made = {}
            for key, item in value.items():
                if not isinstance(key, str):
                    raise ExpressionError(ErrorCode.NOT_JSON)
                made[key] = as_json(item)
            return made
        case _:
            raise ExpressionError(ErrorCode.NOT_JSON)


def is_amount(value: object) -> bool:
    """Whether a value can be compared as an amount: a number, or a decimal number in text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return False
    try:
        return not isinstance(value, str) or Decimal(value).is_finite()
    except InvalidOperation:
        return False


def is_exact(value: Any) -> bool:
    """Whether readers of the stored bytes get the same numbers: 2^60 in a float would come back rounded."""
    if isinstance(value, dict):
        return all(is_exact(member) for member in value.values())
    if isinstance(value, list):
        return all(is_exact(member) for member in value)
    return not isinstance(value, float) or abs(value) <= canonical.MAX_SAFE_INTEGER
