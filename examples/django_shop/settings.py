"""The smallest settings with a database and PyQMQ."""

import os
from pathlib import Path

SECRET_KEY = os.environ.get("SHOP_SECRET_KEY", "for development only")
DEBUG = os.environ.get("SHOP_DEBUG", "1") == "1"
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
ROOT_URLCONF = "urls"
INSTALLED_APPS = ["qmq.integrations.django", "orders"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("SHOP_DATABASE", Path(__file__).parent / "shop.sqlite3"),
        "OPTIONS": {"timeout": 20, "transaction_mode": "IMMEDIATE"},
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

QMQ_URL = os.environ.get("QMQ_META", "localhost:8080")
QMQ_APP = "shop"
