from django.db import migrations, models
from django.utils import timezone

from runtime.core import ids


def begin(apps, schema_editor):
    """What was written before has no numbers of its own: together it is the first version of the world."""
    versions = apps.get_model("runtime", "FactVersion").objects
    worlds = apps.get_model("runtime", "WorldVersion").objects
    for tenant in versions.order_by("tenant").values_list("tenant", flat=True).distinct():
        first = worlds.create(
            tenant=tenant,
            write_id=ids.new_ulid(),
            version=1,
            writer="system",
            written_at=timezone.now(),
            toolchain="0.1.0",
        )
        versions.filter(tenant=tenant).update(write_id=first.write_id, world_version=1)


class Migration(migrations.Migration):

    dependencies = [
        ('runtime', '0043_target_callbacks'),
    ]

    operations = [
        migrations.CreateModel(
            name='WorldVersion',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tenant', models.CharField(default='default', max_length=64)),
                ('write_id', models.CharField(max_length=26, unique=True)),
                ('version', models.PositiveBigIntegerField(blank=True, null=True)),
                ('writer', models.CharField(max_length=160)),
                ('written_at', models.DateTimeField()),
                ('toolchain', models.CharField(max_length=64)),
            ],
            options={
                'ordering': ('tenant', 'version'),
            },
        ),
        migrations.AddField(
            model_name='factversion',
            name='world_version',
            field=models.PositiveBigIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='factversion',
            name='write_id',
            field=models.CharField(default='', max_length=26),
            preserve_default=False,
        ),
        migrations.AddIndex(
            model_name='factversion',
            index=models.Index(fields=['tenant', 'path', 'world_version'], name='fact_version_of_world'),
        ),
        migrations.AddIndex(
            model_name='factversion',
            index=models.Index(fields=['write_id'], name='fact_version_of_write'),
        ),
        migrations.AddIndex(
            model_name='worldversion',
            index=models.Index(fields=['tenant', 'writer', 'version'], name='world_version_by_writer'),
        ),
        migrations.AddConstraint(
            model_name='worldversion',
            constraint=models.UniqueConstraint(fields=('tenant', 'version'), name='world_version_once'),
        ),
        migrations.AddConstraint(
            model_name='worldversion',
            constraint=models.CheckConstraint(condition=models.Q(('version__isnull', True), ('version__gte', 1), _connector='OR'), name='world_version_from_one'),
        ),
        migrations.RunPython(begin, migrations.RunPython.noop),
    ]
