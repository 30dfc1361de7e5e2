"""Consumers: `python manage.py qmq_consume` runs both groups."""

from books.models import Account
from django.conf import settings
from django.db.models import F

from qmq import sync
from qmq.integrations.django.idempotent import once

app = sync.App(settings.QMQ_URL, app=settings.QMQ_APP)


def book(account: str, delivery: sync.Delivery) -> None:
    """Add an order to an account. Twice would be wrong, which the marker prevents."""
    Account.objects.filter(name=account).update(
        orders=F("orders") + 1, cents=F("cents") + int(delivery.properties["cents"])
    )


@app.consumer("orders.placed", group="revenue", concurrency=2, start="earliest")
@once()
def book_revenue(delivery: sync.Delivery) -> None:
    """Each order is revenue."""
    book("revenue", delivery)


@app.consumer("orders.placed", group="shipping", concurrency=2, start="earliest")
@once()
def ship(delivery: sync.Delivery) -> None:
    """Each order is shipped."""
    book("shipping", delivery)
