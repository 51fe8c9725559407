"""Legal holds: what one is placed on, and the bounds of its words. Pure."""

import re
from typing import Final

from runtime.contracts.states import Choice

LONGEST_NAME: Final = 64
LONGEST_SUBJECT: Final = 200
LONGEST_REASON: Final = 500
# A case number or the like. It is in the ledger permanently, so it has no room for words about people.
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,63}")


class HoldTarget(Choice):
    """What a hold keeps: one flow, or every flow about a subject."""

    FLOW = "FLOW"
    SUBJECT = "SUBJECT"
