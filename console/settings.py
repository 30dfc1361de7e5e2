"""Django's settings, from the environment (QMQ_...). One deployment shape with knobs; `console.checks` says what is wrong."""

import os
import secrets
from pathlib import Path

from metaserver.database import database_settings

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(os.environ.get("QMQ_DATA_DIR", BASE_DIR / "var"))


def _secret_key() -> str:
    """The key from the environment, else one made once and kept in the data folder for its owner alone."""
    given = os.environ.get("QMQ_SECRET_KEY")
    if given:
        return given
    path = DATA_DIR / "secret_key"
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        key = secrets.token_urlsafe(50)
        DATA_DIR.mkdir(parents=True, exist_ok=True)
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return path.read_text().strip()
        with os.fdopen(fd, "w") as file:
            file.write(key)
        return key


SECRET_KEY = _secret_key()
DEBUG = False
ALLOWED_HOSTS = os.environ.get("QMQ_ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]").split(",")
META_URL = os.environ.get("QMQ_META", "http://127.0.0.1:8080/meta/address")

INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "metaserver",
    "console",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "console.urls"
ASGI_APPLICATION = "console.asgi.application"
DATABASES = {"default": database_settings(os.environ.get("QMQ_DATABASE_URL", ""), str(DATA_DIR / "meta"))}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
SECURE_CONTENT_TYPE_NOSNIFF = True
X_FRAME_OPTIONS = "DENY"
