"""Units of amounts (`x-unit`), and how an amount is written with its unit.

Money travels as an integer of minor units, so that no float enters it; people read it in the currency
itself, with its decimals. Every other unit is written after the number as the schema names it: an amount of
90 seconds stays `90 s`, because the limit beside it and the field that changes it count in seconds too.
"""

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final

# Longer numbers are shown as they are: nobody reads them as an amount.
MAX_DIGITS: Final = 24
_TOO_LARGE: Final = 10**MAX_DIGITS
# Decimals of the currencies of ISO 4217 that have not two.
_DECIMALS: Final = {
    **dict.fromkeys(
        [
            "BIF",
            "CLP",
            "DJF",
            "GNF",
            "ISK",
            "JPY",
            "KMF",
            "KRW",
            "PYG",
            "RWF",
            "UGX",
            "UYI",
            "VND",
            "VUV",
            "XAF",
            "XOF",
            "XPF",
        ],
        0,
    ),
    **dict.fromkeys(["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"], 3),
    **dict.fromkeys(["CLF", "UYW"], 4),
}
_HUNDREDTHS: Final = (
    "AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF"
    " CHE CHF CHW CNY COP COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD"
    " HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT"
    " MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR"
    " SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD USN UYU"
    " UZS VED VES WST XCD XCG YER ZAR ZMW ZWG"
)
# The currencies in use, each with the decimals of its smallest unit.
CURRENCIES: Final = dict.fromkeys(_HUNDREDTHS.split(), 2) | _DECIMALS
_CENTS: Final = 2
# From here on a factor is read faster than a percentage.
_MANY_TIMES: Final = 10
_MICROS: Final = 6
_PARTS: Final = ("cents", "minor", "micros")
_WORD: Final = re.compile(r"%|[A-Za-z]{1,20}")
_SEPARATED: Final = re.compile(r"-?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?")
_NUMBER: Final = re.compile(rf"-?[0-9]{{1,{MAX_DIGITS}}}(?:\.[0-9]{{1,{MAX_DIGITS}}})?")


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit: `name` follows the number on a page.

    `shift` is the number of digits by which an amount is a fraction of `name`, such as 2 for cents;
    `decimals` is the least number of decimals that a fraction of money is written with.
    """

    name: str
    shift: int = 0
    decimals: int = 0

    def write(self, number: Decimal) -> str:
        """Write an amount of this unit with thousands separators, exactly: `4,733.82 USD`, `25 bps`."""
        return f"{self.digits(number)} {self.name}"

    def digits(self, number: Decimal) -> str:
        """Write the same without the name, as a field beside which the name stands: `4,733.82`."""
        sign, digits, exponent = number.as_tuple()
        shifted = Decimal((0, digits, int(exponent) - self.shift))
        whole, _, fraction = f"{shifted:,f}".partition(".")
        fraction = fraction.rstrip("0")
        if fraction or self.shift:
            fraction = fraction.ljust(self.decimals, "0")
        minus = "-" if sign and number else ""
        return f"{minus}{whole}{'.' if fraction else ''}{fraction}"

    def read(self, text: str) -> Decimal | None:
        """Read an amount as a person writes it: `4,733.82 USD`, `4733.82` and `4,733.82` are 473382 cents.

        None where the text states no number. What is finer than the unit comes back as a fraction. A comma
        between other than three digits is refused: `47,33` is no thousand, and may be meant as a fraction.
        """
        stated = text.strip()
        if self.name and stated.casefold().endswith(self.name.casefold()):
            stated = stated[: -len(self.name)].rstrip()
        if "," in stated and _SEPARATED.fullmatch(stated) is None:
            return None
        found = number_in(stated.replace(",", ""))
        if found is None:
            return None
        sign, digits, exponent = found.as_tuple()
        return Decimal((sign, digits, int(exponent) + self.shift))


@dataclass(frozen=True, slots=True)
class InvalidUnit:
    """Why a text is no unit, as words that follow the text."""

    why: str


@lru_cache(maxsize=1024)
def parse(text: str) -> Unit | InvalidUnit:
    """Read a unit as a schema writes it, such as `cents USD`, `minor KWD`, `USD`, `bps` or `shares`."""
    part, space, code = text.partition(" ")
    if part in _PARTS:
        return _money(part, code) if space else InvalidUnit(f"has no currency: write {part} USD")
    if _WORD.fullmatch(text) is None:
        return InvalidUnit(
            "is no unit: write cents USD (or another currency), USD, bps, %, s, ms, or one word of at most 20"
            " letters such as shares"
        )
    return Unit(name=text, decimals=CURRENCIES.get(text, 0))


def _money(part: str, code: str) -> Unit | InvalidUnit:
    decimals = CURRENCIES.get(code)
    if decimals is None:
        return InvalidUnit(f"names no currency code of ISO 4217: write {part} USD")
    if part == "cents" and decimals != _CENTS:
        usual = f"minor {code}" if decimals else code
        return InvalidUnit(f"is wrong, since {code} has no cents: write {usual}")
    shift = _MICROS if part == "micros" else decimals
    return Unit(name=code, shift=shift, decimals=decimals)


def number_of(value: object) -> Decimal | None:
    """Return a JSON number exactly as it was sent; None for anything else, and for a number that is too long.

    A JSON number that is no integer arrives as a float; its shortest text is what was sent.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return number_in(str(value)) if abs(value) < _TOO_LARGE else None


def number_in(text: str) -> Decimal | None:
    """Return the number that a text states in plain digits; None if it states none, or one too long."""
    return Decimal(text) if _NUMBER.fullmatch(text) else None


def share_above(value: Decimal, limit: Decimal) -> str:
    """Return by how much a value exceeds a limit of the same unit, in whole percent: `373 % above`.

    Rounded down. Empty where it does not, and where the limit is not above zero: there is no share of it.
    """
    if not 0 < limit < value:
        return ""
    ratio = Fraction(value) / Fraction(limit)
    if ratio >= _MANY_TIMES:
        return f"{int(ratio):,} times the limit"
    percent = int((ratio - 1) * 100)
    return f"{percent} % above" if percent else "less than 1 % above"


def write(number: Decimal, unit: str) -> str:
    """Write an amount with its unit; a unit of other words, as a resource may have, follows the number."""
    parsed = parse(unit)
    return (Unit(name=unit) if isinstance(parsed, InvalidUnit) else parsed).write(number)
