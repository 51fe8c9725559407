from django.db import migrations, models
from django.db.models import F


def count_earlier_ends(apps, schema_editor):
    """What ended before this version has no bearing on how its provider is now."""
    rows = apps.get_model("runtime", "Consultation").objects.filter(ended_at__isnull=False)
    rows.update(counted_at=F("ended_at"))


class Migration(migrations.Migration):
    dependencies = [
        ("runtime", "0057_results_that_are_asked_for"),
    ]

    operations = [
        migrations.AddField(
            model_name="consultation",
            name="counted_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.RunPython(count_earlier_ends, migrations.RunPython.noop),
        migrations.AddConstraint(
            model_name="consultation",
            constraint=models.CheckConstraint(
                condition=models.Q(("counted_at__isnull", True), ("ended_at__isnull", False), _connector="OR"),
                name="consultation_counts_once_ended",
            ),
        ),
        migrations.AddIndex(
            model_name="consultation",
            index=models.Index(
                condition=models.Q(("counted_at__isnull", True), ("ended_at__isnull", False)),
                fields=["ended_at"],
                name="consultation_to_count",
            ),
        ),
    ]
