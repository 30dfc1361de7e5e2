"""Cleanup of the markers of idempotent handlers."""

from django.db import migrations, models


def text(length: int) -> models.CharField:
    return models.CharField(blank=True, default="", db_default="", max_length=length)


class Migration(migrations.Migration):
    dependencies = [("console_outbox", "0001_initial")]

    operations = [
        migrations.AddField("outboxdatabase", "marker_table", text(127)),
        migrations.AddField("outboxdatabase", "marker_days", models.PositiveIntegerField(default=7, db_default=7)),
        migrations.AddField("outboxdatabase", "marker_cleanup_at", models.DateTimeField(null=True)),
        migrations.AddField("outboxdatabase", "marker_error", text(500)),
        migrations.AddField("outboxdatabase", "marker_error_code", text(60)),
    ]
