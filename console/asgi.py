"""ASGI entry of the console: what is admitted goes to Django (HTTP) or to the live feeds (websockets)."""

import gc
import os

from django.core.asgi import get_asgi_application

from qmq.private_files import restrict_umask

restrict_umask()
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
# Django first: what follows imports models.
_http = get_asgi_application()

from channels.routing import ProtocolTypeRouter  # noqa: E402
from django.conf import settings  # noqa: E402
from django.db import connections  # noqa: E402

from console.http.admission import Admission  # noqa: E402
from console.http.protocol import connections_max  # noqa: E402
from console.http.proxies import behind_proxies  # noqa: E402
from console.live.consumers import LiveApp  # noqa: E402

for database in connections.settings.values():
    # Each request has a thread of its own, so no later request uses its connection again: kept open, it would count at the
    # server until it is garbage-collected.
    database["CONN_MAX_AGE"] = 0
connections_max()  # raises the limit of open files, and logs a low one at the start
application = Admission.over_redis(ProtocolTypeRouter({"http": _http, "websocket": LiveApp()}))
# The outermost layer: everything else sees the client's address.
application = behind_proxies(application, settings.BEHIND_PROXY)
# What was imported lives as long as the process: full collections, which stop all requests, need not examine it.
gc.freeze()
