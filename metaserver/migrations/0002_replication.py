from django.db import migrations, models


def make_members(apps, schema_editor):
    """Groups from before replication have one member and stay that way until an operator raises `copies`."""
    groups = apps.get_model('metaserver', 'BrokerGroup').objects
    for group in groups.all():
        members = [group.master] if group.master else []
        groups.filter(pk=group.pk).update(members=members, in_sync=members, copies=1)


class Migration(migrations.Migration):

    dependencies = [('metaserver', '0001_metadata')]

    operations = [
        migrations.AddField('brokergroup', 'copies', models.PositiveSmallIntegerField(default=2)),
        migrations.AddField('brokergroup', 'members', models.JSONField(default=list)),
        migrations.AddField('brokergroup', 'preferred', models.JSONField(default=list)),
        migrations.AlterField('brokergroup', 'in_sync_min', models.PositiveSmallIntegerField(default=2)),
        migrations.RunPython(make_members, migrations.RunPython.noop),
    ]
