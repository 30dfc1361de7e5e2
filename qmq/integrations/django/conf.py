"""Settings."""

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured


def qmq_url() -> str:
    """Return QMQ_URL.

    Raises:
        ImproperlyConfigured: it is not set.
    """
    url = getattr(settings, "QMQ_URL", "")
    if not isinstance(url, str) or not url:
        raise ImproperlyConfigured(
            f'QMQ_URL is {url!r}; set it to the address of the metaserver, such as QMQ_URL = "localhost:8080"'
        )
    return url


def qmq_app() -> str:
    """Return QMQ_APP, the name of the application towards the metaserver; "" when it is not set."""
    return str(getattr(settings, "QMQ_APP", ""))
