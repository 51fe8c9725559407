"""Redaction rules of a policy kind that do nothing, or that take away what the kind itself reads."""

from collections.abc import Iterator, Sequence

from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.redaction import RedactedIn, Redaction
from runtime.kernel.rules import cel_tokens, sources
from runtime.kernel.rules.cel_tokens import CelToken, TokenKind


def lint(kind: KindDocument) -> Iterator[tuple[sources.Place, str]]:
    """A place in the kind and a sentence for each problem."""
    for at, rule in enumerate(kind.redact):
        elsewhere = [source for source in RedactedIn if source is not RedactedIn.RECEIPT]
        if not kind.steps and not any(rule.covers(source) for source in elsewhere):
            yield ("redact", at), "without steps there is no receipt to redact"
    for standing in sources.list_expressions(kind):
        tokens = cel_tokens.tokenize(standing.text)
        for path in _receipt_paths(tokens):
            for rule in kind.redact:
                if _is_hidden(path, rule):
                    said = f"receipt.{'.'.join(path)} is never seen: the redaction rule {rule.id} replaces it"
                    yield standing.place, said


def _receipt_paths(tokens: Sequence[CelToken]) -> Iterator[list[str]]:
    """What is read of receipts: the names after `receipt` and `steps.STEP`, as far as they are plain."""
    for at, token in enumerate(tokens):
        is_root = token.kind is TokenKind.NAME and (at == 0 or tokens[at - 1].text != ".")
        if is_root and token.text in ("receipt", "steps"):
            names = list(_members(tokens[at + 1 :]))
            path = names if token.text == "receipt" else names[1:]
            if path:
                yield path


def _members(tokens: Sequence[CelToken]) -> Iterator[str]:
    """The names of `.a["b"][0]`, up to what is worked out."""
    at = 0
    while at + 1 < len(tokens):
        sign, name = tokens[at], tokens[at + 1]
        if sign.text == "." and name.kind is TokenKind.NAME:
            yield name.text
            at += 2
        elif (
            sign.text == "["
            and name.kind in (TokenKind.STRING, TokenKind.NUMBER)
            and [token.text for token in tokens[at + 2 : at + 3]] == ["]"]
        ):
            yield name.text.strip("\"'")
            at += 3
        else:
            return


def _is_hidden(path: Sequence[str], rule: Redaction) -> bool:
    hidden = [] if rule.field is None else rule.field.split(".")
    reached = zip(hidden, path, strict=False)
    return 0 < len(hidden) <= len(path) and all(name in ("*", read) for name, read in reached)
