"""The start page: what is there, and the two lines that make a first message appear."""

import json
import urllib.error
import urllib.request
from html import escape

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse

ASK_SECONDS = 2.0


def healthz(_: HttpRequest) -> JsonResponse:
    """The process answers."""
    return JsonResponse({"status": "ok"})


def start_page(_: HttpRequest) -> HttpResponse:
    """Broker groups as the metaserver knows them."""
    url = settings.META_URL.rsplit("/", 1)[0] + "/cluster"
    try:
        with urllib.request.urlopen(url, timeout=ASK_SECONDS) as answer:
            groups = json.load(answer)["broker_groups"]
        rows = "".join(
            f"<tr><td>{escape(g['name'])}<td>{escape(g['state'])}<td>{escape((g['master'] or {}).get('address', '-'))}"
            for g in groups
        )
        body = f"<table><tr><th>Broker group<th>State<th>Master{rows}</table>"
    except (urllib.error.URLError, OSError, ValueError, KeyError) as error:
        body = f"<p>The metaserver at {escape(url)} can't be asked: {escape(str(error))}</p>"
    page = (
        "<!doctype html><html lang=en><meta charset=utf-8><title>PyQMQ</title><h1>PyQMQ</h1>"
        f"{body}<p>Send and receive a first message:"
        "<pre>qmq produce hello -p greeting=hi\nqmq consume hello readers --count 1</pre>"
    )
    return HttpResponse(page)
