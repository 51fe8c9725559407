"""An entry as a CloudEvent 1.0 in the structured JSON form."""

from typing import Any, Final
from urllib.parse import quote

from audit import canonical, chain
from runtime.contracts.receiver import STATE_CHANGED, STATE_RESYNC, SealedEntry

MEDIA_TYPE: Final = "application/cloudevents+json"
TYPE_PREFIX: Final = "dir-console."
# The CloudEvents extension `sequence` is compared as text, so it has one length.
_DIGITS: Final = 20


def encode(entry: SealedEntry) -> bytes:
    """The bytes of one event.

    `data` are the members that were hashed, as they are: with `prevhash`, a receiver works out the hash of
    the entry, which is the `id`, and finds it in the ledger's tree.
    """
    return canonical.encode(_event(entry))


def encode_change(entry: SealedEntry, *, version: int | None) -> bytes:
    """A written fact as `state:changed`: the same, with the version of the world that the write made."""
    named = {} if version is None else {"worldversion": str(version)}
    return canonical.encode({**_event(entry), "type": f"{TYPE_PREFIX}{STATE_CHANGED}", **named})


def encode_resync(entry: SealedEntry, *, version: int) -> bytes:
    """`state:resync`: read the world at a version. `entry` is the first of those that are not sent."""
    event = _event(entry)
    del event["prevhash"]
    return canonical.encode(
        {
            **event,
            "id": f"{entry.entry_hash}-resync",
            "type": f"{TYPE_PREFIX}{STATE_RESYNC}",
            "worldversion": str(version),
            "data": {"world_version_id": version},
        }
    )


def _event(entry: SealedEntry) -> dict[str, Any]:
    return {
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
