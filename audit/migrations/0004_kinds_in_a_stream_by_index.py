from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('audit', '0003_newest_entries_by_index'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='ledgerentry',
            index=models.Index(fields=['tenant', 'stream', 'kind', 'seq'], name='entry_kind_in_stream'),
        ),
    ]
