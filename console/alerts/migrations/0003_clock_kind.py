"""Kinds of alerts about racks, about clocks of delay nodes, about disks that hang, about stored data that is not read again in
time, and about forecasts and anomalies. The choices of a field are nothing that a database knows."""

from django.db import migrations, models

KINDS = [
    (kind, kind)
    for kind in (
        "lag", "time_lag", "drain_time", "anomaly", "dead_letters", "duplicate_ids", "group_state", "copies", "below_minimum",
        "no_candidate", "one_rack", "role_changes", "replication", "disk", "disk_in_a_day", "disk_stuck", "damage", "scrub", "lateness",
        "clock", "job_late", "outbox_age", "outbox_failed", "outbox_unreachable", "unknown",
    )
]  # fmt: skip


class Migration(migrations.Migration):
    dependencies = [("alerts", "0002_outbox_kinds")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField("alertrule", "kind", models.CharField(max_length=20, choices=KINDS)),
                migrations.AlterField("alert", "kind", models.CharField(max_length=20, choices=KINDS, db_index=True)),
            ]
        )
    ]
