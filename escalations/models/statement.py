"""What a person stated later of a call that was left in doubt."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from escalations.models.escalation import Escalation
from runtime.contracts import states
from runtime.flows.models import Intent


class EffectStatement(models.Model):
    """One call of an intent (its key at the target), and what became of it. What is stated is never changed.

    It is stated once, and once more (`sequence` 2) whenever a receipt contradicts what was stated.
    `escalation` is the last one about the intent: its evidence is what the person had to look at.
    """

    intent = models.ForeignKey(Intent, on_delete=models.PROTECT, related_name="effect_statements")
    target_key = models.CharField(max_length=64)
    escalation = models.ForeignKey(Escalation, on_delete=models.PROTECT, related_name="effect_statements")
    sequence = models.PositiveSmallIntegerField(default=1)
    effect = models.CharField(max_length=12, choices=states.Effect.pairs())
    reason = models.TextField()
    approver = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    solo = models.BooleanField(default=False)
    statement = models.BinaryField()
    signature = models.BinaryField()
    key_id = models.CharField(max_length=64)
    stated_at = models.DateTimeField()

    class Meta:
        ordering = ("stated_at", "id")
        constraints = (
            models.UniqueConstraint(
                fields=("intent", "target_key", "sequence"), name="effect_stated_once_in_turn"
            ),
            models.CheckConstraint(
                condition=Q(effect__in=states.KNOWN_EFFECTS), name="effect_stated_is_a_known_one"
            ),
            models.CheckConstraint(condition=~Q(reason=""), name="effect_stated_with_a_reason"),
        )

    def __str__(self) -> str:
        return f"{self.intent_id} {self.target_key}: {self.effect}"
