from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [('metaserver', '0006_incarnations')]

    operations = [
        migrations.AddField('brokergroup', 'known_epoch', models.BigIntegerField(default=0)),
        migrations.AddField('brokergroup', 'known_version', models.BigIntegerField(default=0)),
    ]
