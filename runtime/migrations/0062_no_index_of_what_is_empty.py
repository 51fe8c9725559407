from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runtime", "0061_no_index_within_another"),
    ]

    operations = [
        # Many agents send no trace.
        migrations.RemoveIndex(
            model_name="flow",
            name="flow_by_trace",
        ),
        migrations.AddIndex(
            model_name="flow",
            index=models.Index(
                models.F("tenant"),
                models.Func(
                    models.F("traceparent"),
                    output_field=models.CharField(max_length=32),
                    template="SUBSTR(%(expressions)s, 4, 32)",
                ),
                condition=models.Q(("traceparent__gt", "")),
                name="flow_by_trace",
            ),
        ),
        # An answer is to an agent or to a feed, and stood in the index of both. SQLite makes the table anew.
        migrations.RemoveConstraint(
            model_name="answer",
            name="answer_once_per_key",
        ),
        migrations.RemoveConstraint(
            model_name="answer",
            name="answer_once_per_key_of_feed",
        ),
        migrations.AddConstraint(
            model_name="answer",
            constraint=models.UniqueConstraint(
                condition=models.Q(("agent__isnull", False)),
                fields=("agent", "path", "key"),
                name="answer_once_per_key",
            ),
        ),
        migrations.AddConstraint(
            model_name="answer",
            constraint=models.UniqueConstraint(
                condition=models.Q(("feed_key__isnull", False)),
                fields=("feed_key", "path", "key"),
                name="answer_once_per_key_of_feed",
            ),
        ),
    ]
