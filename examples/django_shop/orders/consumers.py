"""Consumers: `python manage.py qmq_consume` runs both."""

from django.conf import settings

import qmq
from orders.models import Order, Receipt
from qmq import sync

receipts = sync.App(settings.QMQ_URL, app=settings.QMQ_APP)
mails = qmq.App(settings.QMQ_URL, app=settings.QMQ_APP)


@receipts.consumer("shop.order-placed", group="receipts", concurrency=4, start="earliest")
def issue_receipt(delivery: sync.Delivery) -> None:
    """A normal function: it runs in a thread, with Django's usual database interface."""
    order = Order.objects.get(pk=delivery.properties["order"])
    Receipt.objects.get_or_create(order=order, defaults={"text": f"{order.customer} paid {order.cents / 100:.2f}"})


@mails.consumer("shop.order-placed", group="mails", concurrency=4, start="earliest")
async def send_mail(delivery: qmq.Delivery) -> None:
    """A coroutine function, with Django's asynchronous database interface."""
    await Order.objects.filter(pk=delivery.properties["order"]).aupdate(is_mailed=True)
