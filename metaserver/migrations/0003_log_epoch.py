from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [('metaserver', '0002_replication')]

    operations = [
        # All commits from before replication are of epoch 1.
        migrations.AddField('node', 'log_epoch', models.BigIntegerField(default=1)),
    ]
