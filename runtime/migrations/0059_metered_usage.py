from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runtime", "0058_results_of_consultations"),
    ]

    operations = [
        migrations.AddField(
            model_name="usagereport",
            name="target",
            field=models.CharField(blank=True, default="", max_length=64),
        ),
    ]
