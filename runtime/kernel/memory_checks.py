"""What speaks for poison in a value that an agent wants to remember. Pure, so that it can be done again.

Each finding quarantines the item for a person; none refuses it. The patterns are a declared list and prove
nothing: they are words of a few languages, and a text that avoids them all is not found.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from runtime.contracts.memory import QuarantineReason
from runtime.kernel import effects, lookalikes, memory_sources

# Between the words of two groups that stand in any order of speech: `ignore all of your previous rules`.
GAP: Final = 4
# From this many letters on that stand alone, they are read as a word: `i g n o r e`.
_MIN_SPELLED: Final = 4
_WORD: Final = re.compile(r"[^\W_]+")
_LINE_BREAKS: Final = frozenset("\n\r\t")
# Marks that imitate letters.
_MARKS: Final = str.maketrans(dict.fromkeys("!|$", " "))


class Pattern(StrEnum):
    """A way in which text addresses the model that reads it. Permanent: entries name it."""

    IGNORES_RULES = "IGNORES_RULES"
    NEW_INSTRUCTIONS = "NEW_INSTRUCTIONS"
    NEW_ROLE = "NEW_ROLE"
    SYSTEM_PROMPT = "SYSTEM_PROMPT"
    HIDES_FROM_PEOPLE = "HIDES_FROM_PEOPLE"
    ORDERS_AN_ACTION = "ORDERS_AN_ACTION"
    ASKS_FOR_SECRETS = "ASKS_FOR_SECRETS"
    WITHOUT_APPROVAL = "WITHOUT_APPROVAL"
    ALWAYS_APPROVE = "ALWAYS_APPROVE"
    FROM_NOW_ON = "FROM_NOW_ON"
    CHAT_MARKUP = "CHAT_MARKUP"


Groups = tuple[tuple[str, ...], ...]
_RULES = (
    *("instruction", "instructions", "rule", "rules", "limit", "limits", "guideline", "guidelines", "prompt"),
    *("prompts", "policy", "policies", "restriction", "restrictions", "safeguard", "safeguards", "warnings"),
    *("anweisung", "anweisungen", "regel", "regeln", "consignes", "regles", "instrucciones", "reglas"),
    *("istruzioni", "regole"),
)
# Words by group: one of each group, in this order, at most `gap` other words between two of them.
PHRASES: Final[tuple[tuple[Pattern, int, Groups], ...]] = (
    (
        Pattern.IGNORES_RULES,
        GAP,
        (
            (
                *("ignore", "disregard", "forget", "override", "bypass", "circumvent", "skip"),
                *("ignoriere", "ignoriert", "vergiss", "missachte", "ignorez", "oubliez", "ignora", "olvida"),
                *("dimentica",),
            ),
            _RULES,
        ),
    ),
    (
        Pattern.NEW_INSTRUCTIONS,
        0,
        (
            ("new", "real", "updated", "actual", "neue", "nouvelles", "nuevas"),
            ("instruction", "instructions", "anweisung", "anweisungen", "instrucciones"),
        ),
    ),
    (Pattern.NEW_ROLE, 0, (("you",), ("are",), ("now",))),
    (Pattern.NEW_ROLE, 0, (("act", "behave"), ("as",))),
    (Pattern.NEW_ROLE, 0, (("pretend", "imagine"), ("to", "that", "you"))),
    (Pattern.NEW_ROLE, 0, (("du",), ("bist",), ("jetzt",))),
    (Pattern.SYSTEM_PROMPT, 0, (("system", "developer", "hidden"), ("prompt", "message", "instructions"))),
    (
        Pattern.HIDES_FROM_PEOPLE,
        3,
        (
            ("not", "never", "t", "without"),
            ("tell", "telling", "inform", "informing", "mention", "alert", "notify", "show", "ask", "asking"),
            (
                "user",
                "users",
                "operator",
                "operators",
                "human",
                "humans",
                "person",
                "people",
                "anyone",
                "admin",
            ),
        ),
    ),
    (
        Pattern.ORDERS_AN_ACTION,
        2,
        (
            ("you", "agent", "agents", "assistant", "assistants"),
            ("must", "should", "shall", "need", "have"),
            (
                *("call", "execute", "run", "send", "transfer", "approve", "buy", "sell", "delete", "pay"),
                *("wire", "refund", "grant", "forward", "follow", "obey"),
            ),
        ),
    ),
    (
        Pattern.ASKS_FOR_SECRETS,
        GAP,
        (
            (
                "send",
                "post",
                "forward",
                "upload",
                "exfiltrate",
                "email",
                "leak",
                "reveal",
                "disclose",
                "print",
            ),
            ("password", "passwords", "secret", "secrets", "token", "tokens", "credential", "credentials"),
        ),
    ),
    (
        Pattern.WITHOUT_APPROVAL,
        2,
        (
            ("without", "no", "skip", "ohne", "sans", "sin"),
            (
                *("approval", "approvals", "confirmation", "escalation", "escalating", "permission"),
                *("genehmigung", "approbation", "aprobacion"),
            ),
        ),
    ),
    (
        Pattern.ALWAYS_APPROVE,
        1,
        (("always", "automatically"), ("approve", "accept", "allow", "confirm", "trust", "execute")),
    ),
    (Pattern.FROM_NOW_ON, 0, (("from",), ("now",), ("on",))),
    (Pattern.FROM_NOW_ON, 0, (("ab",), ("jetzt",))),
)
# How chats mark whose turn it is; looked for as they stand.
MARKUP: Final = ("<|im_start|>", "<|im_end|>", "[inst]", "[/inst]", "<<sys>>", "<system>", "</system>")


@dataclass(frozen=True, slots=True)
class Finding:
    """Why an item waits; `detail` is a pattern, a version or a count, never words of the value."""

    reason: QuarantineReason
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.reason}:{self.detail}" if self.detail else str(self.reason)


@dataclass(frozen=True, slots=True)
class Active:
    """The item that agents receive under a key now."""

    version: int
    digest: str
    source: str
    writer: str


def read_finding(text: str) -> tuple[str, str]:
    """The code and the detail of a finding as it is stored."""
    code, _, detail = text.partition(":")
    return code, detail


def examine_text(value: Any) -> list[Finding]:
    """What in the texts of a JSON value addresses a model or hides from a reader; names of members too."""
    texts = list(_texts(value))
    found = [Finding(QuarantineReason.INSTRUCTIONS, pattern) for pattern in _patterns(texts)]
    if any(effects.is_invisible(char) and char not in _LINE_BREAKS for text in texts for char in text):
        found.append(Finding(QuarantineReason.HIDDEN_CHARACTERS))
    return found


def examine_rate(*, written: int, at_most: int) -> list[Finding]:
    """Whether this write, after `written` others of the last minute, is one too many."""
    if written < at_most:
        return []
    return [Finding(QuarantineReason.MASS_WRITE, f"{written + 1}>{at_most}")]


def examine_contradiction(*, digest: str, source: str, writer: str, active: Active | None) -> list[Finding]:
    """Whether a value says something else than an active one of another writer that has a stronger source."""
    if active is None or active.writer == writer or active.digest == digest:
        return []
    if memory_sources.strength(active.source) <= memory_sources.strength(source):
        return []
    return [Finding(QuarantineReason.CONTRADICTION, str(active.version))]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, member in value.items():
            yield name
            yield from _texts(member)
    elif isinstance(value, list):
        for element in value:
            yield from _texts(element)


def _patterns(texts: Sequence[str]) -> list[Pattern]:
    # Joined: an instruction that is cut into several members is one all the same.
    text = "\n".join(texts)
    plain = "".join(char for char in text if char in _LINE_BREAKS or not effects.is_invisible(char))
    # `!` is read as a letter that it imitates, and as the end of a sentence that it mostly is.
    readings = [plain, plain.translate(_MARKS)] if any(ord(char) in _MARKS for char in plain) else [plain]
    found = set()
    for reading in readings:
        words = _spelled_out(_WORD.findall(lookalikes.skeleton(reading)))
        found |= {pattern for pattern, gap, groups in _SKELETONS if _holds(words, groups, gap)}
    folded = plain.casefold()
    if any(mark in folded for mark in MARKUP):
        found.add(Pattern.CHAT_MARKUP)
    return sorted(found)


def _spelled_out(words: Sequence[str]) -> list[str]:
    """The words, with letters that stand alone joined: `i g n o r e` is `ignore`."""
    joined: list[str] = []
    letters: list[str] = []
    for word in (*words, ""):
        if len(word) == 1:
            letters.append(word)
            continue
        joined.extend(["".join(letters)] if len(letters) >= _MIN_SPELLED else letters)
        letters = []
        joined.append(word)
    return joined[:-1]


def _holds(words: Sequence[str], groups: Sequence[frozenset[str]], gap: int) -> bool:
    """Whether one word of each group stands in the words in order, with at most `gap` between two of them."""
    first, *rest = groups
    ends = [at for at, word in enumerate(words) if word in first]
    for group in rest:
        reached = {at for end in ends for at in range(end + 1, min(end + 2 + gap, len(words)))}
        ends = [at for at in sorted(reached) if words[at] in group]
    return bool(ends)


_SKELETONS: Final = tuple(
    (pattern, gap, tuple(frozenset(lookalikes.skeleton(word) for word in group) for group in groups))
    for pattern, gap, groups in PHRASES
)
