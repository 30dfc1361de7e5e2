from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [('metaserver', '0005_node_reports')]

    operations = [
        migrations.AddField('brokergroup', 'incarnations', models.JSONField(default=list)),
        migrations.AddField('brokergroup', 'master_boot_id', models.CharField(blank=True, default='', max_length=100)),
    ]
