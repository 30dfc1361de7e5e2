"""An OpenID Connect provider on loopback: real HTTP, real signatures, one user who always says yes."""

import base64
import json
import threading
import time
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

KEY_ID = "key-of-a-test"


class IdentityProvider:
    """Issues tokens with `claims` to the client `qmq`; keeps what it was asked."""

    def __init__(self) -> None:
        self.claims: dict[str, Any] = {}
        self.code_challenge = ""
        self.nonce: str | None = None
        self.asked: list[str] = []
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(provider.answer(self.path, None, self.headers.get("Authorization", "")))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                self._answer(provider.answer(self.path, parse_qs(body), self.headers.get("Authorization", "")))

            def _answer(self, answer: tuple[int, dict[str, Any]]) -> None:
                text = json.dumps(answer[1]).encode()
                self.send_response(answer[0])
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self.issuer = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "IdentityProvider":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, path: str, form: dict[str, list[str]] | None, authorization: str) -> tuple[int, dict[str, Any]]:
        """What it says at a path."""
        self.asked.append(path)
        if path == "/.well-known/openid-configuration":
            paths = {"authorization": "authorize", "token": "token", "userinfo": "userinfo"}
            endpoints = {f"{name}_endpoint": f"{self.issuer}/{where}" for name, where in paths.items()}
            return 200, {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/jwks", **endpoints}
        if path == "/jwks":
            public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key()))
            return 200, {"keys": [{**public, "kid": KEY_ID, "use": "sig", "alg": "RS256"}]}
        if path == "/token" and form is not None:
            verifier = form.get("code_verifier", [""])[0]
            digest = base64.urlsafe_b64encode(sha256(verifier.encode()).digest()).decode().rstrip("=")
            if form.get("code") != ["granted"] or digest != self.code_challenge:
                return 400, {"error": "invalid_grant"}
            return 200, {"access_token": "access", "token_type": "Bearer", "id_token": self.id_token()}
        if path == "/userinfo" and authorization == "Bearer access":
            return 200, self.claims
        return 404, {"error": "not_found"}

    def id_token(self) -> str:
        """The claims, signed."""
        now = int(time.time())
        said = {"iss": self.issuer, "aud": "qmq", "iat": now, "exp": now + 60, **self.claims}
        if self.nonce is not None:
            said["nonce"] = self.nonce
        return jwt.encode(said, self._key, algorithm="RS256", headers={"kid": KEY_ID})
