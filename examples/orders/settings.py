"""Settings with the outbox and markers, on PostgreSQL or SQLite."""

import os
from pathlib import Path

import dj_database_url

SECRET_KEY = os.environ.get("ORDERS_SECRET_KEY", "for development only")
DEBUG = False
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
ROOT_URLCONF = "urls"
INSTALLED_APPS = [
    "qmq.integrations.django",
    "qmq.integrations.django.outbox",
    "qmq.integrations.django.idempotent",
    "books",
]
DATABASES = {
    "default": dj_database_url.config(
        "ORDERS_DATABASE_URL", default=f"sqlite:///{Path(__file__).parent}/orders.sqlite3"
    )
}
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    DATABASES["default"]["OPTIONS"] = {"timeout": 20, "transaction_mode": "IMMEDIATE"}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

QMQ_URL = os.environ.get("QMQ_META", "localhost:8080")
QMQ_APP = "orders"
