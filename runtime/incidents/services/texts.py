"""The words of notes and actions: their bounds, and their place behind a commitment."""

from audit import canonical, ledger
from audit.payload_keys import PayloadClass
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode

LONGEST_NOTE = 4000
LONGEST_ACTION = 300


def check(given: str, *, what: str, longest: int) -> str | Problem:
    """The text as it is kept, with line ends as one character; or why it is none."""
    text = given.replace("\r\n", "\n").replace("\r", "\n").strip()
    if not text:
        return Problem(code=ProblemCode.NOTE_EMPTY, detail=f"Write {what}.")
    if len(text) > longest or "\x00" in text:
        detail = f"At most {longest:,} characters; this has {len(text):,}."
        return Problem(code=ProblemCode.NOTE_TOO_LONG, detail=detail)
    return text


def keep(*, tenant: str, text: str) -> str:
    """Store a text outside the chain; its commitment."""
    return ledger.commit_payload(tenant=tenant, data_class=PayloadClass.PEOPLE, body=canonical.encode(text))
