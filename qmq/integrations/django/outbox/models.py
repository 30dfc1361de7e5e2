"""The table as a model, for queries of operators and for Django's tests, which empty it. Its rows are written by `send`."""

from django.db import models

from qmq.integrations.django.outbox.tables import table_of_model
from qmq.outbox.rows import LAST_ERROR_CHARS_MAX, Status


class OutboxMessage(models.Model):
    """A message of a committed transaction that no broker has confirmed yet."""

    content = models.TextField()
    """JSON, as QMQ's Java client writes it."""
    status = models.SmallIntegerField(
        default=Status.PENDING, choices=[(int(status), status.name.lower()) for status in Status]
    )
    error = models.PositiveIntegerField(default=0)
    """Attempts of relays that failed."""
    create_time = models.DateTimeField()
    update_time = models.DateTimeField()
    """A relay sends the row once this time is old enough."""
    last_error = models.CharField(max_length=LAST_ERROR_CHARS_MAX, null=True)

    class Meta:
        db_table = table_of_model()

    def __str__(self) -> str:
        return f"{self.pk} ({Status(self.status).name.lower()})"
