"""The copied decisions take the place of the old table: PostgreSQL alters no table it has just written to."""

from django.db import migrations, models
from django.db.models import Q

from escalations.contracts import DecisionState


class Migration(migrations.Migration):

    dependencies = [("escalations", "0006_decisions_that_can_be_taken_back")]

    operations = [
        migrations.DeleteModel("Decision"),
        # Also makes SQLite name the indexes anew on the way back, before the old table comes with the same names.
        migrations.AlterField(
            "NewDecision",
            "state",
            models.CharField(choices=DecisionState.pairs(), default=DecisionState["IN_EFFECT"], max_length=16),
        ),
        migrations.RenameModel("NewDecision", "Decision"),
        migrations.AlterModelOptions("Decision", {"ordering": ("escalation", "sequence")}),
        migrations.AddConstraint(
            "Decision",
            models.UniqueConstraint(fields=("escalation", "sequence"), name="decision_sequence_once"),
        ),
        migrations.AddConstraint(
            "Decision",
            models.UniqueConstraint(
                fields=("escalation",),
                condition=Q(state=DecisionState["IN_EFFECT"]),
                name="decision_one_in_effect",
            ),
        ),
        migrations.AddConstraint(
            "Decision",
            models.UniqueConstraint(
                fields=("escalation",),
                condition=Q(state=DecisionState["AWAITING_SECOND"]),
                name="decision_one_awaits_a_second",
            ),
        ),
        migrations.AddConstraint(
            "Decision",
            models.CheckConstraint(condition=Q(state__in=DecisionState.values()), name="decision_state_known"),
        ),
    ]
