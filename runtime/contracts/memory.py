"""What the memory firewall knows of an item: its source, what was found there, and why it waits.

Stored and permanent: rows, entries and pages name these values.
"""

from typing import Final

from runtime.contracts.states import Choice


class SourceKind(Choice):
    """What a source names, by the word before its colon."""

    FACT = "FACT"
    FLOW = "FLOW"
    AGENT = "AGENT"
    OUTSIDE = "OUTSIDE"
    UNLABELLED = "UNLABELLED"


class SourceCheck(Choice):
    """What the runtime found when it looked for an item's value at the source that the item names.

    OWN_CLAIM: the agent's own conclusion, for which there is nothing to compare. MATCHED: the value is in the
    recorded bytes. MISMATCHED: they do not hold it. NOT_PROVED: they are erased, or are not what the ledger
    recorded. NOT_FOUND: there is no such flow or fact for this agent.
    """

    OWN_CLAIM = "OWN_CLAIM"
    MATCHED = "MATCHED"
    MISMATCHED = "MISMATCHED"
    NOT_PROVED = "NOT_PROVED"
    NOT_FOUND = "NOT_FOUND"
    OUTSIDE = "OUTSIDE"
    UNLABELLED = "UNLABELLED"


class SourcePlace(Choice):
    """Where a matched value was found."""

    FACT = "FACT"
    TRIGGER = "TRIGGER"
    RECEIPT = "RECEIPT"
    STEP_OUTPUT = "STEP_OUTPUT"


class QuarantineReason(Choice):
    """Why an item waits for a person."""

    OUTSIDE_SOURCE = "OUTSIDE_SOURCE"
    UNLABELLED_SOURCE = "UNLABELLED_SOURCE"
    SOURCE_NOT_FOUND = "SOURCE_NOT_FOUND"
    SOURCE_NOT_PROVED = "SOURCE_NOT_PROVED"
    SOURCE_MISMATCH = "SOURCE_MISMATCH"
    INSTRUCTIONS = "INSTRUCTIONS"
    HIDDEN_CHARACTERS = "HIDDEN_CHARACTERS"
    MASS_WRITE = "MASS_WRITE"
    CONTRADICTION = "CONTRADICTION"


# Writes of one agent to one scope within a minute, where its manifest says nothing else.
DEFAULT_WRITES_PER_MINUTE: Final = 30
