"""The node secret: what metaservers, nodes and the console of one system share. It signs requests and never crosses the wire.

Two secrets may be valid at a time, so that one can be replaced without a stop: the first signs, both are accepted.
"""

import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path

from qmq.errors import SettingError
from qmq.private_files import keep_secret

VARIABLE = "QMQ_NODE_TOKEN"
FILE_VARIABLE = "QMQ_NODE_TOKEN_FILE"
CHARS_MIN = 32
"""A shorter secret could be found by trying, from one recorded signature."""
SECRETS_MAX = 2
FILE_BYTES_MAX = 4096
FILE_NAME = "node_token"
"""In the data folder of a system that `manage.py up` started."""


class NodeSecret:
    """One or two keys. Not printable.

    Args:
        keys: the first signs, all are accepted.
    """

    def __init__(self, keys: tuple[bytes, ...]) -> None:
        self._keys = keys

    @classmethod
    def parse(cls, text: str, source: str) -> "NodeSecret":
        """The secrets of a text, separated by commas or lines. Raises SettingError for none, too many, or one that is too short.

        `source` is the setting or file, for error messages; the text itself appears in none.
        """
        found = [part.strip() for part in text.replace("\n", ",").split(",")]
        keys = [part.encode() for part in found if part]
        if not 1 <= len(keys) <= SECRETS_MAX:
            raise SettingError(f"{source} holds {len(keys)} secrets; specify one, or two while it is being replaced")
        if min(map(len, keys)) < CHARS_MIN:
            raise SettingError(f"{source} holds a secret of fewer than {CHARS_MIN} characters")
        return cls(tuple(keys))

    @classmethod
    def load(cls, token: str, path: str) -> "NodeSecret | None":
        """The secret of a setting's text, else of a file; None when neither is set.

        Raises SettingError as `parse`, or for a file that can't be read or that other users may read or change.
        """
        if token:
            return cls.parse(token, VARIABLE)
        if not path:
            return None
        try:
            with open(path, "rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                text = file.read(FILE_BYTES_MAX).decode("utf-8", "replace")
        except OSError as error:
            raise SettingError(f"the node secret's file {path} can't be read: {error.strerror}") from error
        if stat.S_IMODE(mode) & 0o007:
            raise SettingError(f"the node secret's file {path} is open to all users of this machine: chmod 0600 {path}")
        return cls.parse(text, f"the node secret's file {path}")

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], default_path: str = "") -> "NodeSecret | None":
        """The secret of QMQ_NODE_TOKEN, else of the file QMQ_NODE_TOKEN_FILE, else of a default file if it can be read.

        Raises: as `load`.
        """
        path = environ.get(FILE_VARIABLE, "")
        if not path and default_path and os.access(default_path, os.R_OK):
            path = default_path
        return cls.load(environ.get(VARIABLE, ""), path)

    def sign(self, context: str, *parts: bytes) -> bytes:
        """The signature of these parts with the first secret; those of another `context` differ."""
        return _mac(self._keys[0], context, parts)

    def signer_of(self, signature: bytes, context: str, *parts: bytes) -> "NodeSecret | None":
        """The one secret that made a signature; None when none of these did."""
        matching = None
        for key in self._keys:
            if hmac.compare_digest(_mac(key, context, parts), signature):
                matching = NodeSecret((key,))
        return matching

    def __repr__(self) -> str:
        return f"NodeSecret({len(self._keys)})"


def _mac(key: bytes, context: str, parts: tuple[bytes, ...]) -> bytes:
    """HMAC-SHA256 over the context and the parts, each with its length: no two lists of parts give the same input."""
    mac = hmac.new(key, digestmod=hashlib.sha256)
    for part in (context.encode(), *parts):
        mac.update(len(part).to_bytes(8, "big"))
        mac.update(part)
    return mac.digest()


def make_secret_file(path: Path) -> None:
    """Create a file with a random secret, readable for its owner only, unless it exists. Raises as `keep_secret`."""
    keep_secret(str(path), lambda: secrets.token_urlsafe(32))
