from django.db import migrations

from audit import planner_statistics


def ignore_bytes(apps, schema_editor):
    planner_statistics.ignore_bytes(apps.get_app_config("runtime").get_models(), schema_editor)


class Migration(migrations.Migration):
    dependencies = [("runtime", "0059_metered_usage")]

    operations = [migrations.RunPython(ignore_bytes, migrations.RunPython.noop)]
