from django.db import migrations

from audit import planner_statistics


def ignore_bytes(apps, schema_editor):
    planner_statistics.ignore_bytes(apps.get_app_config("audit").get_models(), schema_editor)


class Migration(migrations.Migration):
    dependencies = [("audit", "0013_records_of_a_flow_by_index")]

    operations = [migrations.RunPython(ignore_bytes, migrations.RunPython.noop)]
