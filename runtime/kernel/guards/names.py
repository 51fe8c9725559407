"""Does the text name another symbol or id than the parameters do, and not theirs?"""

import re
from collections.abc import Iterator, Mapping, Sequence

from runtime.contracts.guard import FindingCode
from runtime.kernel.guards import actions, words
from runtime.kernel.guards.leaves import Leaf
from runtime.kernel.guards.words import Token

_SYMBOL = re.compile(r"[A-Z][A-Z0-9]{1,9}(?:[-./][A-Z0-9]{1,8})?")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_ID = re.compile(r"(?P<make>[^\W\d_]+[-_./:]?)[\w./:-]*\d[\w./:-]*")
_LEAST_ID_CHARS = 4
_SPLIT = re.compile(r"[-./]")
# Capitals that name no thing to act on.
ABBREVIATIONS = words.bag(
    "AI AM AND API ATR BUT CAGR CEO CET CFO CHF CPI CPU CSV DFID DIM DNS EBIT EBITDA ECB EMA EOD EPS EST"
    " ETA ETF EU EUR FED FOMC FX FYI GBP GDP GMT H1 H2 HTTP HTTPS ID IPO IT JPY JSON KPI KYC LLM MACD MOM"
    " NASDAQ NAV NOT NYSE OK OR OTC PCE PDF PE PM PMI PNL PR Q1 Q2 Q3 Q4 QOQ RISK ROI RSI SEC SLA SMA SQL"
    " SUM THE THIS TODO TTL TV UI UK URL US USA USD UTC UUID VAR VAT VIX VWAP WMA XML YOY YTD"
)


def contradictions(
    tokens: Sequence[Token], leaves: Sequence[Leaf], choices: Mapping[str, Sequence[str]]
) -> Iterator[tuple[FindingCode, str]]:
    """For each symbol or id of the parameters that the text does not name: another that it does."""
    said = {token.word for token in tokens}
    ours = {part.casefold() for leaf in leaves if isinstance(leaf.value, str) for part in _forms(leaf.value)}
    for leaf in leaves:
        if not isinstance(leaf.value, str) or said.intersection(
            form.casefold() for form in _forms(leaf.value)
        ):
            continue
        others = [token for token in tokens if token.word not in ours]
        found = _other(leaf, others, tuple(choices.get(leaf.name, ())), is_loud=_is_loud(tokens))
        if found is not None:
            code, other = found
            yield code, f"The explanation names {other}, and {leaf.name} is {leaf.value}."


def _other(
    leaf: Leaf, others: Sequence[Token], choices: Sequence[str], *, is_loud: bool
) -> tuple[FindingCode, str] | None:
    own = str(leaf.value)
    if _is_symbol(own):
        allowed = {choice for choice in choices if _is_symbol(choice)}
        symbols = [token.text for token in others if _is_symbol(token.text)]
        chosen = next((text for text in symbols if text in allowed), None)
        if chosen is not None:
            return FindingCode.OTHER_CHOICE, chosen
        if symbols and not is_loud:
            return FindingCode.OTHER_SYMBOL, symbols[0]
        return None
    make = _make(own)
    same = next((token.text for token in others if make and _make(token.text) == make), None)
    return None if same is None else (FindingCode.OTHER_ID, same)


def _is_symbol(text: str) -> bool:
    return (
        _SYMBOL.fullmatch(text) is not None
        and text not in ABBREVIATIONS
        and not actions.is_action(text.casefold())
    )


def _is_loud(tokens: Sequence[Token]) -> bool:
    """Whether the text is written in capitals: then every word looks like a symbol."""
    lettered = [token.text for token in tokens if token.text.upper() != token.text.lower()]
    return sum(text.isupper() for text in lettered) * 2 > len(lettered)


def _make(text: str) -> str:
    """What ids of one sort have in common: `uuid`, or what stands before the first digit; empty for no id."""
    plain = text.casefold()
    if _UUID.fullmatch(plain):
        return "uuid"
    found = _ID.fullmatch(plain)
    return found["make"] if found and len(plain) >= _LEAST_ID_CHARS else ""


def _forms(value: str) -> tuple[str, ...]:
    """The value and, for a symbol of two parts, its first one: `BTC-USD` is spoken of as BTC."""
    return (value, _SPLIT.split(value)[0]) if _is_symbol(value) else (value,)
