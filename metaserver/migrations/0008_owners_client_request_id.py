from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("metaserver", "0007_registry_log_end_and_approval")]

    operations = [
        migrations.AddField(
            model_name="auditentry",
            name="client_request_id",
            field=models.CharField(blank=True, default="", max_length=64),
        ),
    ]
