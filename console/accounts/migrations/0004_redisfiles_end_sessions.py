"""End all sessions: rows of earlier versions have the keys of cookies, which were passwords for anybody who read the database."""

from django.db import migrations


def end_sessions(apps, schema_editor):
    apps.get_model("sessions", "Session").objects.all().delete()
    apps.get_model("accounts", "UserSession").objects.all().delete()


class Migration(migrations.Migration):

    dependencies = [
        ("accounts", "0003_preferences"),
        ("sessions", "0001_initial"),
    ]

    operations = [
        migrations.RunPython(end_sessions, migrations.RunPython.noop, elidable=True),
    ]
