"""An ASGI application that answers with the client's address and the scheme it sees."""

import json
from typing import Any


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answer a request."""
    assert scope["type"] == "http"
    body = json.dumps({"client": scope["client"][0], "scheme": scope["scheme"]}).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": body})
