

import django.db.models.deletion
import django.db.models.functions.text
import django.db.models.lookups
import uuid
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('audit', '0011_feedback_on_records'),
    ]

    operations = [
        migrations.CreateModel(
            name='ClassKey',
            fields=[
                ('key_id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('tenant', models.CharField(max_length=64)),
                ('data_class', models.CharField(max_length=64)),
                ('master_id', models.CharField(max_length=16)),
                ('wrapped', models.BinaryField(max_length=60, null=True)),
                ('created_at', models.DateTimeField()),
                ('retired_at', models.DateTimeField(null=True)),
                ('destroyed_at', models.DateTimeField(null=True)),
            ],
        ),
        migrations.RemoveConstraint(
            model_name='payload',
            name='payload_whole_or_erased',
        ),
        migrations.RenameField(
            model_name='payload',
            old_name='body',
            new_name='content',
        ),
        migrations.AddField(
            model_name='payload',
            name='nonce',
            field=models.BinaryField(max_length=12, null=True),
        ),
        migrations.AddConstraint(
            model_name='classkey',
            constraint=models.UniqueConstraint(condition=models.Q(('retired_at__isnull', True)), fields=('tenant', 'data_class'), name='class_key_one_in_use'),
        ),
        migrations.AddConstraint(
            model_name='classkey',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(django.db.models.lookups.Exact(django.db.models.functions.text.Length('wrapped'), 60), ('destroyed_at__isnull', True), ('wrapped__isnull', False)), models.Q(('destroyed_at__isnull', False), ('wrapped__isnull', True)), _connector='OR'), name='class_key_wrapped_or_destroyed'),
        ),
        migrations.AddConstraint(
            model_name='classkey',
            constraint=models.CheckConstraint(condition=models.Q(('destroyed_at__isnull', True), ('retired_at__isnull', False), _connector='OR'), name='class_key_destroyed_was_retired'),
        ),
        migrations.AddConstraint(
            model_name='classkey',
            constraint=models.CheckConstraint(condition=models.Q(('data_class', ''), _negated=True), name='class_key_has_a_class'),
        ),
        migrations.AddField(
            model_name='payload',
            name='key',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='payloads', to='audit.classkey'),
        ),
        migrations.AddConstraint(
            model_name='payload',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('content__isnull', False), ('erased_at__isnull', True), ('salt__isnull', False)), models.Q(('content__isnull', True), ('erased_at__isnull', False), ('nonce__isnull', True), ('salt__isnull', True)), _connector='OR'), name='payload_whole_or_erased'),
        ),
        migrations.AddConstraint(
            model_name='payload',
            constraint=models.CheckConstraint(condition=models.Q(('content__isnull', True), models.Q(('key__isnull', True), ('nonce__isnull', True)), models.Q(django.db.models.lookups.Exact(django.db.models.functions.text.Length('nonce'), 12), ('key__isnull', False), ('nonce__isnull', False)), _connector='OR'), name='payload_nonce_with_its_key'),
        ),
    ]
