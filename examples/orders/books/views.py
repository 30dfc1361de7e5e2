"""Requests."""

import json

from books.models import Order
from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from qmq.integrations.django import outbox


@csrf_exempt
@require_POST
def place_order(request: HttpRequest) -> JsonResponse:
    """Store the order and its message: both or neither."""
    fields = json.loads(request.body)
    with transaction.atomic():
        order = Order.objects.create(number=fields["number"], cents=fields["cents"])
        outbox.send("orders.placed", {"order": order.number, "cents": order.cents})
    return JsonResponse({"order": order.pk}, status=201)
