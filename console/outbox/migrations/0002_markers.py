"""Cleanup of the markers of idempotent handlers."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("console_outbox", "0001_initial")]

    operations = [
        migrations.AddField("outboxdatabase", "marker_table", models.CharField(blank=True, max_length=127)),
        migrations.AddField("outboxdatabase", "marker_days", models.PositiveIntegerField(default=7)),
        migrations.AddField("outboxdatabase", "marker_cleanup_at", models.DateTimeField(null=True)),
        migrations.AddField("outboxdatabase", "marker_error", models.CharField(blank=True, max_length=500)),
        migrations.AddField("outboxdatabase", "marker_error_code", models.CharField(blank=True, max_length=60)),
    ]
