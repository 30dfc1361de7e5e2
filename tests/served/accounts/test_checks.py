"""System checks and headers: what a deployment is told before it serves, and what browsers are told."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client

from console import checks
from qmq.net.node_secret import make_secret_file
from tests.support.servers.processes import PROJECT

NODE_TOKEN = "node-secret-of-the-tests-0123456789abcdef"


def ids(found: list[Any]) -> list[str]:
    return [message.id for message in found]


def test_e001_https_with_cookies_that_go_without(settings: Any) -> None:
    settings.IS_HTTPS = True
    settings.SESSION_COOKIE_SECURE = settings.CSRF_COOKIE_SECURE = True
    assert checks.cookies(None) == []
    settings.CSRF_COOKIE_SECURE = False
    assert ids(checks.cookies(None)) == ["console.E001"]
    settings.IS_HTTPS = False
    assert checks.cookies(None) == []


@pytest.mark.parametrize("key", ["short", "a" * 60, "django-insecure-" + "abcdefghij" * 5])
def test_e002_a_key_that_can_be_guessed(settings: Any, key: str) -> None:
    settings.SECRET_KEY = key
    assert ids(checks.secret(None)) == ["console.E002"]
    settings.SECRET_KEY = "kf83-Zq0_xV7pLm2RtYw9BnC4sHd6JgT"
    assert checks.secret(None) == []


@pytest.mark.parametrize("host", ["*", "*.example.org"])
def test_e003_any_host(settings: Any, host: str) -> None:
    settings.ALLOWED_HOSTS = ["console.example.org", host]
    assert ids(checks.hosts(None)) == ["console.E003"]
    settings.ALLOWED_HOSTS = ["console.example.org", ".example.org"]
    assert checks.hosts(None) == []


@pytest.mark.parametrize(
    ("collation", "expected"),
    [("utf8mb4_bin", []), ("utf8mb4_0900_as_cs", []), ("utf8mb4_general_ci", ["console.E004"])],
)
def test_e004_capitals_and_small_letters(monkeypatch: pytest.MonkeyPatch, collation: str, expected: list[str]) -> None:
    class Cursor:
        def __enter__(self) -> "Cursor":
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def execute(self, text: str) -> None:
            assert text == "SELECT @@collation_database"

        def fetchone(self) -> tuple[str]:
            return (collation,)

    mysql = SimpleNamespace(vendor="mysql", cursor=Cursor)
    sqlite = SimpleNamespace(vendor="sqlite", cursor=None)
    monkeypatch.setattr(checks, "connections", {"default": mysql, "other": sqlite})
    assert ids(checks.collation(None, databases=["default", "other"])) == expected
    assert checks.collation(None, databases=None) == []


def test_e005_a_word_that_is_none(settings: Any) -> None:
    assert checks.accounts(None) == []
    settings.MFA_REQUIRED = "yes"
    assert ids(checks.accounts(None)) == ["console.E005"]


def test_e006_half_a_single_sign_on(settings: Any) -> None:
    settings.OIDC_ISSUER = "https://id.example.org"
    assert ids(checks.accounts(None)) == ["console.E006"]
    settings.OIDC_CLIENT_ID = "qmq"
    assert checks.accounts(None) == []
    settings.OIDC_ROLES = {"ops": "boss"}
    assert ids(checks.accounts(None)) == ["console.E006"]


def test_e020_no_node_secret_or_one_that_can_not_be_used(settings: Any, tmp_path: Path) -> None:
    settings.DATA_DIR, settings.NODE_TOKEN, settings.NODE_TOKEN_FILE = tmp_path, "", ""
    assert ids(checks.node_secret_set(None)) == ["console.E020"]
    settings.NODE_TOKEN = "short"
    assert ids(checks.node_secret_set(None)) == ["console.E020"]
    settings.NODE_TOKEN = NODE_TOKEN
    assert checks.node_secret_set(None) == []
    settings.NODE_TOKEN = ""
    make_secret_file(tmp_path / "node_token")
    assert checks.node_secret_set(None) == []


def manage(tmp_path: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("QMQ_")}
    return subprocess.run(
        [sys.executable, "manage.py", *words],
        cwd=PROJECT,
        env={**inherited, "QMQ_DATA_DIR": str(tmp_path), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_deployment_behind_https_is_clean(tmp_path: Path) -> None:
    done = manage(tmp_path, "check", "--deploy", "--fail-level", "WARNING", QMQ_HTTPS="1", QMQ_NODE_TOKEN=NODE_TOKEN)
    assert done.returncode == 0, done.stderr
    assert "no issues" in done.stdout + done.stderr


def test_a_careless_deployment_is_told(tmp_path: Path) -> None:
    done = manage(
        tmp_path, "check", "--deploy",
        QMQ_HTTPS="1", QMQ_SECRET_KEY="secret", QMQ_ALLOWED_HOSTS="*", QMQ_MFA_REQUIRED="maybe",
    )  # fmt: skip
    assert done.returncode != 0
    for what in ("console.E002", "console.E003", "console.E005", "console.E020"):
        assert what in done.stderr


SNAPSHOT = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/", "/healthz", "/api/v1/subjects/", "/_allauth/browser/v1/config", "/nothing"])
def test_every_answer_has_the_headers(path: str) -> None:
    answer = Client(raise_request_exception=False).get(path)
    assert {name: answer.headers.get(name) for name in SNAPSHOT} == SNAPSHOT
    assert "Strict-Transport-Security" not in answer.headers
    assert "Server" not in answer.headers
    policy = answer.headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert "camera=()" in answer.headers["Permissions-Policy"]
    if path.startswith(("/api", "/_allauth")):
        assert policy.startswith("default-src 'none'")
        assert "no-store" in answer.headers["Cache-Control"]


def test_passwords_are_kept_as_argon2(tmp_path: Path) -> None:
    text = "from django.contrib.auth.hashers import make_password as m; print(m('x'))"
    done = manage(tmp_path, "shell", "--no-imports", "-c", text)
    # The library's own cost: 100 MiB, twice.
    assert done.stdout.startswith("argon2$argon2id$v=19$m=102400,t=2,p=8$"), done.stderr


ASK_BY_HTTPS = """
import json, django
django.setup()
from django.test import Client
from django.conf import settings
settings.ALLOWED_HOSTS = ["testserver"]
answer = Client().get("/healthz", secure=True)
plain = Client().get("/healthz")
print(json.dumps({
    "hsts": answer.headers.get("Strict-Transport-Security"),
    "redirect": [plain.status_code, plain.headers.get("Location")],
    "cookies": [settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME,
                settings.SESSION_COOKIE_SECURE, settings.CSRF_COOKIE_SECURE, settings.SESSION_COOKIE_HTTPONLY],
}))
"""


def test_https_is_for_ever_and_cookies_keep_to_it(tmp_path: Path) -> None:
    environment = {**os.environ, "QMQ_HTTPS": "1", "QMQ_DATA_DIR": str(tmp_path)}
    environment["DJANGO_SETTINGS_MODULE"] = "console.settings"
    done = subprocess.run(
        [sys.executable, "-c", ASK_BY_HTTPS], cwd=PROJECT, env=environment, capture_output=True, text=True, check=True
    )
    said = json.loads(done.stdout.splitlines()[-1])
    assert said == {
        "hsts": "max-age=31536000; includeSubDomains",
        "redirect": [301, "https://testserver/healthz"],
        "cookies": ["__Host-qmq_session", "__Host-qmq_csrf", True, True, True],
    }


@pytest.mark.parametrize("days", [(0, 30, 400, 1000), (7, 30, 20, 1000)])
def test_e007_summaries_that_are_forgotten_before_finer_ones(settings: Any, days: tuple[int, ...]) -> None:
    assert checks.analytics(None) == []
    settings.ANALYTICS_KEEP_DAYS = dict(zip(settings.ANALYTICS_KEEP_DAYS, days, strict=True))
    assert ids(checks.analytics(None)) == ["console.E007"]


@pytest.mark.parametrize(
    "url",
    [
        "redis://127.0.0.1:6379/0",
        "redis://localhost/0",
        "redis://[::1]:6379/0",
        "redis://127.1.2.3/0",
        "unix:///run/redis.sock?db=0",
        "redis://:secret@redis.example.org/0",
        "redis://user:secret@10.0.0.5/0",
        "rediss://:secret@redis.example.org/0",
        "redis://redis.example.org/0?password=secret",
        "rediss://redis.example.org/0?ssl_certfile=/a.pem&ssl_keyfile=/a.key",
    ],
)
def test_e009_a_redis_that_is_protected_or_on_this_machine(settings: Any, url: str) -> None:
    settings.REDIS_URL = url
    assert checks.redis_access(None) == []


@pytest.mark.parametrize(
    "url",
    [
        "redis://redis.example.org/0",
        "redis://redis:6379/0",
        "redis://10.0.0.5:6379/0",
        "redis://user@10.0.0.5:6379/0",
        "redis://:@10.0.0.5:6379/0",
        "rediss://redis.example.org/0",
        "rediss://redis.example.org/0?ssl_certfile=",
        "redis://0.0.0.0/0",
        "redis://localhost.example.org/0",
        "redis://127.0.0.1.example.org/0",
        "http://127.0.0.1/0",
        "redis://127.0.0.1:port/0",
    ],
)
def test_e009_a_redis_on_the_network_that_takes_anybodys_commands(settings: Any, url: str) -> None:
    settings.REDIS_URL = url
    assert ids(checks.redis_access(None)) == ["console.E009"]


def test_e009_names_no_password(settings: Any) -> None:
    settings.REDIS_URL = "redis://:secret@host:port/0"
    (found,) = checks.redis_access(None)
    assert "secret" not in f"{found.msg} {found.hint}"


def test_a_deployment_with_an_open_redis_is_refused(tmp_path: Path) -> None:
    done = manage(tmp_path, "check", "--deploy", QMQ_HTTPS="1", QMQ_REDIS_URL="redis://redis.example.org:6379/0")
    assert done.returncode != 0
    assert "console.E009" in done.stderr
    assert manage(tmp_path, "check", QMQ_REDIS_URL="redis://redis.example.org:6379/0").returncode == 0
