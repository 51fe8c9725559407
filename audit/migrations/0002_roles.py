"""One group per role. The names are written out: a migration must not follow later edits of the enum."""

from typing import Any

from django.db import migrations

ROLES = ("operator", "senior", "admin", "auditor")


def create_groups(apps: Any, schema_editor: Any) -> None:
    groups = apps.get_model("auth", "Group").objects.using(schema_editor.connection.alias)
    for name in ROLES:
        groups.get_or_create(name=name)


class Migration(migrations.Migration):
    dependencies = [
        ("audit", "0001_ledger"),
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    operations = [migrations.RunPython(create_groups, migrations.RunPython.noop)]
