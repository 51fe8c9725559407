"""Triggers that ask for each place alone: by OR, SQLite walked all records once somebody ran ANALYZE."""

from django.db import migrations

from audit.verification import triggers


def install(apps, schema_editor):
    triggers.install(using=schema_editor.connection.alias)


class Migration(migrations.Migration):
    dependencies = [("audit", "0014_no_statistics_of_bytes")]

    operations = [migrations.RunPython(install, migrations.RunPython.noop)]
