from django.db import migrations, models


class Migration(migrations.Migration):
    """Existing silences stay what they were: for all alerts."""

    dependencies = [("alerts", "0003_disk_damage")]

    operations = [
        migrations.AddField(
            model_name="silence",
            name="owner",
            field=models.CharField(blank=True, default="", max_length=60),
        ),
        migrations.AddField(
            model_name="silence",
            name="is_system",
            field=models.BooleanField(default=True),
        ),
    ]
