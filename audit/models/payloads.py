"""Payloads that may be personal: outside the chain, so that they can be erased without breaking it."""

from django.db import models
from django.db.models.functions import Length
from django.db.models.lookups import Exact, GreaterThanOrEqual


class Payload(models.Model):
    """A body and its salt behind the commitment SHA-256(salt || body) that entries carry.

    Erasure takes the salt with the body: with the salt left, a guessed body could still be confirmed.
    """

    id = models.BigAutoField(primary_key=True)
    tenant = models.TextField()
    commitment = models.CharField(max_length=64, unique=True)
    salt = models.BinaryField(null=True)
    body = models.BinaryField(null=True)
    erased_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(body__isnull=False, salt__isnull=False, erased_at__isnull=True)
                | models.Q(body__isnull=True, salt__isnull=True, erased_at__isnull=False),
                name="payload_whole_or_erased",
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
