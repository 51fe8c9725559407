"""What signs the tree over the ledger."""

from audit.events.base import Event, Kind


class SigningKeyBegun(Event):
    """A key signs from now on: `public_key` is 32 bytes in base64, `previous` the key before it, if any.

    Both sign `audit.sealing.keys.statement`, which names the tree (`origin`) too. Without
    `previous_signature` the key before does not vouch for this one.
    """

    kind = Kind.SIGNING_KEY_BEGUN
    key_id: str
    public_key: str
    previous: str
    origin: str
    signature: str
    previous_signature: str = ""
