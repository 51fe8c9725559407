"""Payloads that may be personal: outside the chain, so that they can be erased without breaking it.

They are encrypted with the key of their class (`ClassKey`); rows from before that are in clear.
"""

from enum import StrEnum
from uuid import uuid4

from django.db import models
from django.db.models.functions import Length
from django.db.models.lookups import Exact, GreaterThanOrEqual

from audit import cells, payload_cipher
from audit.payload_cipher import Opened, State
from audit.quick_rows import QuickRow


class KeyState(StrEnum):
    """New payloads are encrypted with the key in use of their class; a retired one opens older ones."""

    IN_USE = "in use"
    RETIRED = "retired"
    DESTROYED = "destroyed"


class ClassKey(models.Model):
    """A key of 32 bytes for the payloads of one class, wrapped by the key of the installation.

    `master_id` names the key that wraps it. The newest of a class is not retired, and new payloads are
    encrypted with it. A destroyed key keeps its row, without what could open anything.
    """

    key_id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    tenant = models.CharField(max_length=64)
    data_class = models.CharField(max_length=64)
    master_id = models.CharField(max_length=16)
    wrapped = models.BinaryField(max_length=payload_cipher.WRAPPED_BYTES, null=True)
    created_at = models.DateTimeField()
    retired_at = models.DateTimeField(null=True)
    destroyed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("tenant", "data_class"),
                condition=models.Q(retired_at__isnull=True),
                name="class_key_one_in_use",
            ),
            models.CheckConstraint(
                condition=models.Q(
                    Exact(Length("wrapped"), payload_cipher.WRAPPED_BYTES),
                    wrapped__isnull=False,
                    destroyed_at__isnull=True,
                )
                | models.Q(wrapped__isnull=True, destroyed_at__isnull=False),
                name="class_key_wrapped_or_destroyed",
            ),
            models.CheckConstraint(
                condition=models.Q(destroyed_at__isnull=True) | models.Q(retired_at__isnull=False),
                name="class_key_destroyed_was_retired",
            ),
            models.CheckConstraint(condition=~models.Q(data_class=""), name="class_key_has_a_class"),
        )

    def __str__(self) -> str:
        return f"{self.data_class} {self.key_id}"

    @property
    def state(self) -> KeyState:
        """What the key is good for."""
        if self.destroyed_at is not None:
            return KeyState.DESTROYED
        return KeyState.IN_USE if self.retired_at is None else KeyState.RETIRED


class PayloadManager(models.Manager["Payload"]):
    """Payloads with their keys, so that opening one costs no query."""

    def get_queryset(self) -> models.QuerySet["Payload"]:
        return super().get_queryset().select_related("key")


class Payload(QuickRow):
    """A body and its salt behind the commitment SHA-256(salt || body) that entries carry.

    `content` is the body, encrypted with `key` and `nonce` and bound to the commitment; in clear where there
    is no key. Erasure takes the salt with it: with the salt left, a guessed body could still be confirmed.
    A row that was erased with its whole key still names that.
    """

    id = models.BigAutoField(primary_key=True)
    tenant = models.TextField()
    commitment = models.CharField(max_length=64, unique=True)
    salt = models.BinaryField(null=True)
    key = models.ForeignKey(ClassKey, null=True, on_delete=models.PROTECT, related_name="payloads")
    nonce = models.BinaryField(max_length=payload_cipher.NONCE_BYTES, null=True)
    content = models.BinaryField(null=True)
    erased_at = models.DateTimeField(null=True)

    objects = PayloadManager()

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(content__isnull=False, salt__isnull=False, erased_at__isnull=True)
                | models.Q(
                    content__isnull=True, salt__isnull=True, nonce__isnull=True, erased_at__isnull=False
                ),
                name="payload_whole_or_erased",
            ),
            models.CheckConstraint(
                condition=models.Q(content__isnull=True)
                | models.Q(key__isnull=True, nonce__isnull=True)
                | models.Q(
                    Exact(Length("nonce"), payload_cipher.NONCE_BYTES),
                    key__isnull=False,
                    nonce__isnull=False,
                ),
                name="payload_nonce_with_its_key",
            ),
            models.CheckConstraint(
                condition=Exact(Length("commitment"), 64), name="payload_commitment_length"
            ),
            models.CheckConstraint(
                condition=models.Q(salt__isnull=True) | models.Q(GreaterThanOrEqual(Length("salt"), 16)),
                name="payload_salt_length",
            ),
        )

    def __str__(self) -> str:
        return self.commitment

    def open(self) -> Opened:
        """The body, or why there is none. It may still not be what was committed to."""
        if self.content is None:
            return Opened(State.ERASED)
        if self.key_id is None:
            return Opened(State.HELD, cells.bytes_of(self.content))
        nonce, content = cells.bytes_of(self.nonce), cells.bytes_of(self.content)
        try:
            key = self.key
        except ClassKey.DoesNotExist:
            key = None
        if key is None or nonce is None or content is None:
            return Opened(State.BROKEN)
        return payload_cipher.open_with(key, commitment=self.commitment, nonce=nonce, content=content)

    @property
    def body(self) -> bytes | None:
        """The body; None where it was erased or cannot be opened."""
        return self.open().body

    @property
    def held(self) -> tuple[object, object]:
        """Salt and body. Both are None where they were erased; only the body where it cannot be opened."""
        return self.salt, self.body
