"""The tables of the outbox, by the DDL of `qmq outbox ddl`, in each database that `migrate` is run for."""

from django.db import migrations, models

from qmq.integrations.django.outbox.tables import MODEL_NAME, create, drop, table_of_model
from qmq.outbox.rows import LAST_ERROR_CHARS_MAX, Status


class Migration(migrations.Migration):
    initial = True
    dependencies = []
    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.CreateModel(
                    name="OutboxMessage",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        ("content", models.TextField()),
                        (
                            "status",
                            models.SmallIntegerField(
                                choices=[(0, "pending"), (-1, "failed"), (-2, "invalid"), (-100, "refused")],
                                default=Status.PENDING,
                            ),
                        ),
                        ("error", models.PositiveIntegerField(default=0)),
                        ("create_time", models.DateTimeField()),
                        ("update_time", models.DateTimeField()),
                        ("last_error", models.CharField(max_length=LAST_ERROR_CHARS_MAX, null=True)),
                    ],
                    options={"db_table": table_of_model()},
                )
            ],
            database_operations=[migrations.RunPython(create, drop, hints={"model_name": MODEL_NAME})],
        )
    ]
