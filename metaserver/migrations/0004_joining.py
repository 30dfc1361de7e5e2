from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [('metaserver', '0003_log_epoch')]

    operations = [
        migrations.AddField('brokergroup', 'joining', models.JSONField(default=list)),
    ]
