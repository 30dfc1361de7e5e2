"""Tables."""

from django.db import models


class Order(models.Model):
    """An order that a customer placed."""

    customer = models.CharField(max_length=100)
    cents = models.PositiveIntegerField()
    is_mailed = models.BooleanField(default=False)


class Receipt(models.Model):
    """The receipt of an order. The constraint makes its creation idempotent: a message can be delivered more than once."""

    order = models.OneToOneField(Order, on_delete=models.CASCADE)
    text = models.CharField(max_length=200)
