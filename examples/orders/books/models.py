"""Tables."""

from django.db import models


class Order(models.Model):
    """An order that a customer has placed."""

    number = models.CharField(max_length=50, unique=True)
    cents = models.PositiveIntegerField()


class Account(models.Model):
    """The books of one consumer group: each order has to be booked once."""

    name = models.CharField(max_length=50, unique=True)
    orders = models.PositiveBigIntegerField(default=0)
    cents = models.PositiveBigIntegerField(default=0)
