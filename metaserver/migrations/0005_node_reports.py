from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [('metaserver', '0004_joining')]

    operations = [
        migrations.AddField('node', 'sync_address', models.CharField(blank=True, default='', max_length=100)),
        migrations.AddField('node', 'rack', models.CharField(blank=True, default='', max_length=100)),
        migrations.AddField('node', 'report', models.JSONField(default=dict)),
    ]
