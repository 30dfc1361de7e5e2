"""Messages in transactions of Django: `send` writes a message with the business rows; it is sent after the commit.

Add "qmq.integrations.django.outbox" to INSTALLED_APPS, set QMQ_URL and run `manage.py migrate` for each database whose
transactions send. What a crash or an outage leaves in the table is sent by `manage.py outbox_watchdog`, which has to run
somewhere.
"""

from qmq.integrations.django.outbox.sending import flush, send, send_many

__all__ = ["flush", "send", "send_many"]
