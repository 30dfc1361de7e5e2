"""Requests."""

import json

from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from orders.models import Order, Receipt
from qmq.integrations.django import send_on_commit


@csrf_exempt
@require_POST
def place_order(request: HttpRequest) -> JsonResponse:
    """Store the order; its message is sent when the transaction has committed."""
    fields = json.loads(request.body)
    with transaction.atomic():
        order = Order.objects.create(customer=fields["customer"], cents=fields["cents"])
        send_on_commit("shop.order-placed", {"order": order.pk})
        if order.cents == 0:
            transaction.set_rollback(True)  # no order, and no message
            return JsonResponse({"error": "an order needs a price"}, status=400)
    return JsonResponse({"order": order.pk}, status=201)


@require_GET
def show_order(request: HttpRequest, order_id: int) -> JsonResponse:
    """Return an order with what the consumers did."""
    order = get_object_or_404(Order, pk=order_id)
    receipt = Receipt.objects.filter(order=order).first()
    return JsonResponse({"is_mailed": order.is_mailed, "receipt": receipt.text if receipt else None})
