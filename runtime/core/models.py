"""Answers kept for repeated calls."""

from django.db import models


class Answer(models.Model):
    """The stored answer to a call with an Idempotency-Key: scope is agent, path and key."""

    agent = models.ForeignKey("runtime.Agent", on_delete=models.PROTECT, related_name="+")
    path = models.CharField(max_length=200)
    key = models.CharField(max_length=255)
    request_digest = models.CharField(max_length=64)
    body = models.BinaryField()
    answered_at = models.DateTimeField()

    class Meta:
        constraints = (models.UniqueConstraint(fields=("agent", "path", "key"), name="answer_once_per_key"),)

    def __str__(self) -> str:
        return self.key
