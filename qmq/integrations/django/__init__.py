"""PyQMQ in a Django project: `manage.py qmq_consume` runs consumers, `send_on_commit` sends when the transaction has committed.
`qmq.integrations.django.outbox`, an application of its own, stores messages with the transaction, so that none is lost.

Add "qmq.integrations.django" to INSTALLED_APPS and set QMQ_URL to the address of the metaserver (`host:port`). QMQ_APP
names the application towards the metaserver.
"""

try:
    import django  # noqa: F401
except ImportError as error:
    raise ImportError(
        "qmq.integrations.django needs the package Django. Install it with: pip install 'pyqmq[django]'"
    ) from error

from qmq.integrations.django.sending import producer, send_on_commit

__all__ = ["producer", "send_on_commit"]
