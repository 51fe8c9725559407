"""Answers kept for repeated calls."""

from django.db import models

from audit.quick_rows import QuickRow


class Answer(QuickRow):
    """The stored answer to a call with an Idempotency-Key: scope is the agent or the feed, path and key."""

    agent = models.ForeignKey(
        "runtime.Agent", null=True, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    feed_key = models.ForeignKey(
        "runtime.Key", null=True, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    path = models.CharField(max_length=200)
    key = models.CharField(max_length=255)
    request_digest = models.CharField(max_length=64)
    body = models.BinaryField()
    answered_at = models.DateTimeField()
    # Of the commitment to it, and which entry of which flow holds that; none in rows from before there was
    # one, and of a batch, whose proposals have their own answers.
    dfid = models.UUIDField(null=True)
    entry_seq = models.PositiveIntegerField(null=True)
    salt = models.BinaryField(default=b"")

    class Meta:
        constraints = (
            # Each index holds only its own: keys are as good as random, so in the other one too an answer
            # would have a page to be read and written for it.
            models.UniqueConstraint(
                fields=("agent", "path", "key"),
                condition=models.Q(agent__isnull=False),
                name="answer_once_per_key",
            ),
            models.UniqueConstraint(
                fields=("feed_key", "path", "key"),
                condition=models.Q(feed_key__isnull=False),
                name="answer_once_per_key_of_feed",
            ),
            models.CheckConstraint(
                condition=models.Q(agent__isnull=False, feed_key__isnull=True)
                | models.Q(agent__isnull=True, feed_key__isnull=False),
                name="answer_to_an_agent_or_a_feed",
            ),
        )
        indexes = (models.Index(fields=("dfid",), name="answer_by_flow"),)

    def __str__(self) -> str:
        return self.key
