"""Does the text name another symbol or id than the parameters do, and not theirs?"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from runtime.contracts.guard import FindingCode
from runtime.kernel.guards import actions, text_tokens
from runtime.kernel.guards.param_values import Leaf
from runtime.kernel.guards.text_tokens import Token

_SYMBOL = re.compile(r"[A-Z][A-Z0-9]{1,9}(?:[-./][A-Z0-9]{1,8})?")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_MAKE = re.compile(r"[^\W\d_]++[-_./:]?+")
_LEAST_ID_CHARS, _MOST_ID_CHARS = 4, 64
_SPLIT = re.compile(r"[-./]")
# Capitals that name no thing to act on.
ABBREVIATIONS = text_tokens.bag(
    "AI AM AND API ATR BUT CAGR CEO CET CFO CHF CPI CPU CSV DFID DIM DNS EBIT EBITDA ECB EMA EOD EPS EST"
    " ETA ETF EU EUR FED FOMC FX FYI GBP GDP GMT H1 H2 HTTP HTTPS ID IPO IT JPY JSON KPI KYC LLM MACD MOM"
    " NASDAQ NAV NOT NYSE OK OR OTC PCE PDF PE PM PMI PNL PR Q1 Q2 Q3 Q4 QOQ RISK ROI RSI SEC SLA SMA SQL"
    " SUM THE THIS TODO TTL TV UI UK URL US USA USD UTC UUID VAR VAT VIX VWAP WMA XML YOY YTD"
)


@dataclass(frozen=True, slots=True)
class Named:
    """What the text names that is not of the parameters: symbols as written, and the first id of each make.

    It is loud where it is written in capitals: then every word looks like a symbol.
    """

    symbols: tuple[str, ...]
    ids: Mapping[str, str]
    is_loud: bool


def contradictions(
    tokens: Sequence[Token], leaves: Sequence[Leaf], choices: Mapping[str, Sequence[str]]
) -> Iterator[tuple[FindingCode, str]]:
    """For each symbol or id of the parameters that the text does not name: another that it does."""
    said = {token.word for token in tokens}
    forms = {leaf.value: _forms(leaf.value) for leaf in leaves if isinstance(leaf.value, str)}
    ours = {form for of_one in forms.values() for form in of_one}
    others = [token.text for token in tokens if token.word not in ours]
    lettered = [token.text for token in tokens if token.text.upper() != token.text.lower()]
    named = Named(
        symbols=tuple(dict.fromkeys(text for text in others if _is_symbol(text))),
        # Backwards, so that the first of each make stays.
        ids={_make(text): text for text in reversed(others)},
        is_loud=sum(text.isupper() for text in lettered) * 2 > len(lettered),
    )
    for leaf in leaves:
        if isinstance(leaf.value, str) and said.isdisjoint(forms[leaf.value]):
            found = _other(leaf.value, named, choices.get(leaf.name, ()))
            if found is not None:
                yield found[0], f"The explanation names {found[1]}, and {leaf.name} is {leaf.value}."


def _other(own: str, named: Named, choices: Sequence[str]) -> tuple[FindingCode, str] | None:
    if _is_symbol(own):
        allowed = set(choices)
        chosen = next((symbol for symbol in named.symbols if symbol in allowed), None)
        if chosen is not None:
            return FindingCode.OTHER_CHOICE, chosen
        return (FindingCode.OTHER_SYMBOL, named.symbols[0]) if named.symbols and not named.is_loud else None
    make = _make(own)
    return (FindingCode.OTHER_ID, named.ids[make]) if make and make in named.ids else None


def _is_symbol(text: str) -> bool:
    return (
        _SYMBOL.fullmatch(text) is not None
        and text not in ABBREVIATIONS
        and not actions.is_action(text.casefold())
    )


def _make(text: str) -> str:
    """What ids of one sort have in common: `uuid`, or what stands before the first digit; empty for no id."""
    plain = text.casefold()
    if not _LEAST_ID_CHARS <= len(plain) <= _MOST_ID_CHARS:
        return ""
    if _UUID.fullmatch(plain):
        return "uuid"
    make = _MAKE.match(plain)
    has_digit = make is not None and any(char.isdigit() for char in plain[make.end() :])
    return make[0] if make is not None and has_digit else ""


def _forms(value: str) -> frozenset[str]:
    """The value and, for a symbol of two parts, its first one: `BTC-USD` is spoken of as BTC."""
    first = _SPLIT.split(value)[0] if _is_symbol(value) else value
    return frozenset({value.casefold(), first.casefold()})
