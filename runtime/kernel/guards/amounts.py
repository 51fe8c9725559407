"""Is an amount or a number in the text far from every one that is proposed?"""

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

from runtime.contracts.guard import FindingCode
from runtime.kernel.guards import text_tokens
from runtime.kernel.guards.param_values import Leaf
from runtime.kernel.guards.text_tokens import Token

# A number in the text may be rounded by this much.
SHARE_PERCENT = 10
MAX_COMPARED = 12
MAX_DIGITS = 18
_CENTS = Decimal(100)

_NUMBER = re.compile(r"(?P<digits>[0-9]++(?:[.,'\u2019][0-9]++)*)(?P<scale>k|m|mn|bn|b)?", re.IGNORECASE)
_PLAIN = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,6})?")
_SCALES = {"k": 3, "thousand": 3, "m": 6, "mn": 6, "million": 6, "b": 9, "bn": 9, "billion": 9}
_CURRENCIES = text_tokens.bag(
    "$ \u20ac \u00a3 \u00a5 usd eur gbp chf jpy dollar dollars euro euros pound pounds franc francs yen"
)
_MONEY = text_tokens.bag("amount notional price cost total value fee payment budget sum usd eur gbp chf")
_COUNTED = text_tokens.bag(
    "quantity qty count number units unit shares share lots lot pieces items contracts coins seats"
)
# An amount after one of these is a bound or a quote, not what is proposed.
_BOUNDS = text_tokens.bag("below under above over limit cap maximum max least most until than per at")
_BEFORE = 3


def contradictions(tokens: Sequence[Token], leaves: Sequence[Leaf]) -> Iterator[tuple[FindingCode, str]]:
    """At most one finding about money and one about a count."""
    values = [_number_of(leaf) for leaf in leaves if _COUNTED.intersection(text_tokens.parts(leaf.name))]
    counts = [value for value in values if value is not None][:MAX_COMPARED]
    money = []
    for leaf in leaves:
        value, parts = _number_of(leaf), text_tokens.parts(leaf.name)
        if value is not None and parts and parts[-1] == "cents":
            money.append(value / _CENTS)
        elif value is not None and _MONEY.intersection(parts):
            money.append(value)
    money = money[:MAX_COMPARED]
    # A price for one is as good as the price for all.
    prices = [amount / count for amount in money for count in counts if count]
    yield from _compare(FindingCode.AMOUNT_DIFFERS, _money_said(tokens), money, [*money, *prices])
    yield from _compare(FindingCode.COUNT_DIFFERS, _counts_said(tokens), counts, counts)


Said = tuple[str, tuple[Decimal, ...]]


def _compare(
    code: FindingCode, said: Sequence[Said], proposed: Sequence[Decimal], near: Sequence[Decimal]
) -> Iterator[tuple[FindingCode, str]]:
    if not said or not proposed:
        return
    readings = [reading for _, all_readings in said for reading in all_readings]
    is_near = any(
        abs(reading - abs(value)) * 100 <= abs(value) * SHARE_PERCENT
        for reading in readings
        for value in near
    )
    if not is_near:
        yield code, f"The explanation says {said[0][0]}, and {proposed[0].normalize():f} is proposed."


def _number_of(leaf: Leaf) -> Decimal | None:
    if isinstance(leaf.value, Decimal):
        return leaf.value
    return Decimal(leaf.value) if _PLAIN.fullmatch(leaf.value) else None


def _money_said(tokens: Sequence[Token]) -> list[Said]:
    found = []
    for at, token in enumerate(tokens):
        number = _NUMBER.fullmatch(token.text)
        if number is None:
            continue
        after = [one.word for one in tokens[at + 1 : at + 3]]
        scale = (number["scale"] or "").casefold()
        if not scale and after and after[0] in _SCALES:
            scale, after = after[0], after[1:]
        before = [one.word for one in tokens[max(0, at - _BEFORE) : at]]
        is_money = bool(_CURRENCIES.intersection([*before[-1:], *after[:1]]))
        if is_money and not _BOUNDS.intersection(before):
            found.append((token.text, _readings(number["digits"], scale)))
    return found[:MAX_COMPARED]


def _counts_said(tokens: Sequence[Token]) -> list[Said]:
    found = []
    for at, token in enumerate(tokens):
        number = _NUMBER.fullmatch(token.text)
        beside = {one.word for one in (*tokens[max(0, at - 1) : at], *tokens[at + 1 : at + 2])}
        before = {one.word for one in tokens[max(0, at - _BEFORE) : at]}
        if number and beside & _COUNTED and not before & _BOUNDS:
            found.append((token.text, _readings(number["digits"], (number["scale"] or "").casefold())))
    return found[:MAX_COMPARED]


def _readings(digits: str, scale: str) -> tuple[Decimal, ...]:
    """What the digits may mean: `1.250` is a thousand and more in one land, one and a quarter in another."""
    marks = [char for char in digits if not char.isdigit()]
    plain = "".join(char for char in digits if char.isdigit())
    if len(plain) > MAX_DIGITS:
        return ()
    factor = Decimal(10) ** _SCALES.get(scale, 0)
    whole = Decimal(plain)
    if not marks:
        return (whole * factor,)
    tail = len(digits) - digits.rindex(marks[-1]) - 1
    fraction = whole / Decimal(10) ** tail
    if len(set(marks)) > 1 or tail != len("000"):
        # Of two sorts of marks the last is the decimal one, and so is a mark without three digits after it.
        return (fraction * factor,)
    return (whole * factor, fraction * factor) if len(marks) == 1 else (whole * factor,)
