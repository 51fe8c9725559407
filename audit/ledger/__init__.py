"""The ledger: appending to it, proving it, and what its rows are compared with.

Services append with `ledger.append_to` (or `ledger.append` where the head is known) in the transaction of the
change; `writer` is imported by nobody else. `verification` proves the chain, `row_checks` is what each domain
registers to compare its rows, `signing` signs statements.
"""

from audit.ledger.writer import (
    GENESIS,
    Head,
    append,
    append_to,
    commit_payload,
    commit_payloads,
    empty_payloads,
    erase_payload,
    time_of_next,
)

__all__ = [
    "GENESIS",
    "Head",
    "append",
    "append_to",
    "commit_payload",
    "commit_payloads",
    "empty_payloads",
    "erase_payload",
    "time_of_next",
]
