"""Several decisions per escalation: one that was taken back stays, and another follows."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import escalations.contracts

COLUMNS = (
    "escalation_id",
    "action",
    "revision",
    "evidence_hash",
    "justification",
    "approver_id",
    "solo",
    "statement",
    "signature",
    "key_id",
    "decided_at",
)


def copy_rows(apps, schema_editor):
    """Every decision so far is the first, and is in effect."""
    old, new = apps.get_model("escalations", "Decision"), apps.get_model("escalations", "NewDecision")
    rows = old.objects.order_by("decided_at").values(*COLUMNS).iterator(chunk_size=500)
    batch = []
    for row in rows:
        batch.append(new(**row))
        if len(batch) == 500:
            new.objects.bulk_create(batch)
            batch = []
    new.objects.bulk_create(batch)


class Migration(migrations.Migration):

    dependencies = [
        ("escalations", "0005_state_again_after_a_receipt"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="NewDecision",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("sequence", models.PositiveSmallIntegerField(default=1)),
                (
                    "state",
                    models.CharField(
                        choices=escalations.contracts.DecisionState.pairs(),
                        default=escalations.contracts.DecisionState["IN_EFFECT"],
                        max_length=15,
                    ),
                ),
                ("action", models.CharField(choices=escalations.contracts.Action.pairs(), max_length=16)),
                ("revision", models.PositiveIntegerField()),
                ("evidence_hash", models.CharField(max_length=64)),
                ("justification", models.TextField(blank=True, default="")),
                ("solo", models.BooleanField(default=False)),
                ("statement", models.BinaryField()),
                ("signature", models.BinaryField()),
                ("key_id", models.CharField(max_length=64)),
                ("decided_at", models.DateTimeField()),
                (
                    "approver",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "escalation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="decisions",
                        to="escalations.escalation",
                    ),
                ),
            ],
        ),
        migrations.RunPython(copy_rows, migrations.RunPython.noop),
    ]
