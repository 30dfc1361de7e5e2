from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [('metaserver', '0005_node_reports')]

    operations = [migrations.AddField('brokergroup', 'incarnations', models.JSONField(default=list))]
