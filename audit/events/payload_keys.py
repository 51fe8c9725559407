"""Keys of payloads, in the stream `system`: which is in use, what wraps them, and which were destroyed."""

from audit.events.base import Event, Id, Kind, Text


class PayloadKeyRotated(Event):
    """New payloads of the class are encrypted with `key_id`; `retired_key_id` encrypts none any more.

    `reason_commitment` is that of the reason, where a person gave one; it is stored beside the chain.
    """

    kind = Kind.PAYLOAD_KEY_ROTATED
    data_class: Text
    retired_key_id: Id
    key_id: Id
    reason_commitment: str | None = None


class PayloadKeyReencryptionRequested(Event):
    """What is under a retired key is to be encrypted with the one in use, by rounds of the worker.

    Without `key_id`, what is in clear, which then is under the class.
    """

    kind = Kind.PAYLOAD_KEY_REENCRYPTION_REQUESTED
    data_class: Text
    key_id: Id | None


class PayloadKeyRewrapped(Event):
    """`keys` keys that the key `old_master_id` of the installation wrapped are wrapped by `master_id`."""

    kind = Kind.PAYLOAD_KEY_REWRAPPED
    old_master_id: str
    master_id: str
    keys: int


class PayloadKeyDestroyed(Event):
    """A retired key was destroyed, and the payloads that were still under it were erased with it.

    `payloads` is their number and `commitments_digest` the SHA-256 over their sorted commitments, each with
    a line feed. `reason_commitment` is that of the reason, which is stored beside the chain.
    """

    kind = Kind.PAYLOAD_KEY_DESTROYED
    data_class: Text
    key_id: Id
    payloads: int
    commitments_digest: str
    reason_commitment: str
