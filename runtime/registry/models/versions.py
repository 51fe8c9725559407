"""What every stored version of a document has: its bytes, and who drafted, activated or discarded it."""

from django.db import models


class DocumentVersion(models.Model):
    """One immutable, hashed version. Its number stays taken, whatever becomes of it."""

    body = models.BinaryField()
    digest = models.CharField(max_length=64)
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=160)
    activated_at = models.DateTimeField(null=True, blank=True)
    activated_by = models.CharField(max_length=160, blank=True, default="")
    discarded_at = models.DateTimeField(null=True, blank=True)
    discarded_by = models.CharField(max_length=160, blank=True, default="")
    # Why it was last activated, or discarded; `solo` where its own author did so, being the only admin.
    reason = models.CharField(max_length=500, blank=True, default="")
    solo = models.BooleanField(default=False)

    class Meta:
        abstract = True


class SwappedVersion(DocumentVersion):
    """A version of a document that has at most one active: the row itself says which."""

    active = models.BooleanField(default=False)

    class Meta:
        abstract = True
