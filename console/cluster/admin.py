"""Admin pages of nodes, requested with the node secret of this system."""

import os
from functools import lru_cache

from django.conf import settings

from qmq.net.http_auth import RequestSigner
from qmq.net.node_secret import FILE_NAME, FILE_VARIABLE, VARIABLE, NodeSecret
from qmq.node_admin import ANSWER_BYTES_MAX, NodeAdmin


def node_admin(admin_address: str, timeout_seconds: float, bytes_max: int = ANSWER_BYTES_MAX) -> NodeAdmin:
    """The admin pages of one node.

    Raises:
        SettingError: the address is not of the form host:port, or the node secret can't be read.
    """
    signer = _signer(settings.NODE_TOKEN, settings.NODE_TOKEN_FILE, str(settings.DATA_DIR))
    return NodeAdmin(admin_address, timeout_seconds, bytes_max, signer)


def node_secret() -> NodeSecret | None:
    """The node secret of the settings, else of the data folder; None when there is none.

    Raises:
        SettingError: it can't be read or used.
    """
    return _load(settings.NODE_TOKEN, settings.NODE_TOKEN_FILE, str(settings.DATA_DIR))


def _load(token: str, path: str, data_dir: str) -> NodeSecret | None:
    given = {VARIABLE: token, FILE_VARIABLE: path}
    return NodeSecret.from_environment(given, os.path.join(data_dir, FILE_NAME))


@lru_cache(maxsize=1)
def _signer(token: str, path: str, data_dir: str) -> RequestSigner | None:
    """One for the process, so that a node's challenge is requested once and not for every page."""
    secret = _load(token, path, data_dir)
    return RequestSigner(secret) if secret is not None else None
