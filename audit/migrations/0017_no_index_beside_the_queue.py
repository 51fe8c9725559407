from django.db import migrations

import audit.models.fields
from audit.verification import triggers


def queue_nothing(apps, schema_editor):
    # SQLite makes the table of the queue anew, and renames none that a trigger writes to. Whoever writes
    # waits until the trigger is there again.
    if schema_editor.connection.vendor == "sqlite":
        triggers.stop_queueing(using=schema_editor.connection.alias)


def queue_again(apps, schema_editor):
    if schema_editor.connection.vendor == "sqlite":
        triggers.install(using=schema_editor.connection.alias)


class Migration(migrations.Migration):
    dependencies = [
        ("audit", "0016_records_in_the_order_of_time"),
    ]

    operations = [
        # Its key is the number of the row, and no index beside it. Nothing changes on PostgreSQL.
        migrations.RunPython(queue_nothing, queue_again),
        migrations.AlterField(
            model_name="unsealedentry",
            name="entry_id",
            field=audit.models.fields.RowKeyField(primary_key=True, serialize=False),
        ),
        migrations.RunPython(queue_again, queue_nothing),
    ]
