"""An entry as a CloudEvent 1.0 in the structured JSON form."""

from typing import Final
from urllib.parse import quote

from audit import canonical, chain
from runtime.contracts.receiver import SealedEntry

MEDIA_TYPE: Final = "application/cloudevents+json"
TYPE_PREFIX: Final = "dir-console."
# The CloudEvents extension `sequence` is compared as text, so it has one length.
_DIGITS: Final = 20


def encode(entry: SealedEntry) -> bytes:
    """The bytes of one event.

    `data` are the members that were hashed, as they are: with `prevhash`, a receiver works out the hash of
    the entry, which is the `id`, and finds it in the ledger's tree.
    """
    return canonical.encode(
        {
            "specversion": "1.0",
            "id": entry.entry_hash,
            "source": f"/{quote(entry.origin)}/{quote(entry.stream, safe=':')}",
            "type": f"{TYPE_PREFIX}{entry.kind}",
            "subject": entry.stream,
            "time": chain.time_text(entry.at),
            "datacontenttype": "application/json",
            "sequence": f"{entry.leaf:0{_DIGITS}d}",
            "prevhash": entry.prev_hash,
            "data": dict(entry.body),
        }
    )
