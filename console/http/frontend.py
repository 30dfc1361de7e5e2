"""The built front end: its page and its files, loaded again when another build replaces them.

`make frontend` puts a build into `settings.FRONTEND_DIR` (tools/frontend.py); a wheel brings one along.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import drf_spectacular_sidecar
from django.conf import settings
from whitenoise.base import WhiteNoise
from whitenoise.responders import StaticFile

NONCE_PLACEHOLDER = "{{ csp_nonce }}"
"""Stands in index.html where each answer has a nonce of its own."""
PAGE = "index.html"
HASHED_FOLDER = "assets/"
"""File names in it contain a hash of the content, so browsers cache these files indefinitely."""
SWAGGER = Path(drf_spectacular_sidecar.__file__).parent / "static/drf_spectacular_sidecar/swagger-ui-dist"
SWAGGER_FOLDER = "swagger/"
"""Where the page of the API (console.http.documentation) finds its scripts, which are drf-spectacular's."""
NAMED_FILES_SECONDS = 3600
"""How long browsers keep files whose names stay the same, like the icon."""
HOW_TO_BUILD = "The console's pages are not built: run `make frontend` in the project's folder."


class NotBuilt(Exception):
    """There is no build to serve; the text says what to run."""


@dataclass(frozen=True, slots=True)
class Build:
    """One build; all of it from the same moment."""

    page: str
    """index.html, with NONCE_PLACEHOLDER in it."""
    files: Mapping[str, StaticFile]
    """By address."""


class Frontend:
    """The build in a folder, whichever it is just now. Thread-safe."""

    def __init__(self, folder: Path, prefix: str) -> None:
        self._folder = folder
        self._prefix = prefix
        self._lock = threading.Lock()
        self._seen: tuple[int, int] | None = None
        self._build: Build | None = None

    def current(self) -> Build:
        """Return the current build; costs one `stat` of the page when nothing has changed.

        Raises:
            NotBuilt: nothing is.
        """
        path = self._folder / PAGE
        try:
            stat = path.stat()
            seen = (stat.st_ino, stat.st_mtime_ns)
            with self._lock:
                if self._build is None or seen != self._seen:
                    # `stat` before the read: a build that comes in between is noticed the next time.
                    self._build = Build(path.read_text("utf-8"), self._files())
                    self._seen = seen
                return self._build
        except FileNotFoundError:
            raise NotBuilt(HOW_TO_BUILD) from None

    def _files(self) -> dict[str, StaticFile]:
        files = WhiteNoise(
            None,
            root=str(self._folder),
            prefix=self._prefix,
            max_age=NAMED_FILES_SECONDS,
            allow_all_origins=False,
            immutable_file_test=lambda _, url: url.startswith(self._prefix + HASHED_FOLDER),
        )
        files.add_files(str(SWAGGER), self._prefix + SWAGGER_FOLDER)
        found = files.files
        # The page has no use without its nonce; what begins with a dot is for those who build.
        return {
            url: file
            for url, file in found.items()
            if url != self._prefix + PAGE and not url.startswith(self._prefix + ".")
        }


@cache
def _of(folder: Path, prefix: str) -> Frontend:
    return Frontend(folder, prefix)


def frontend() -> Frontend:
    """The one that the settings name."""
    return _of(settings.FRONTEND_DIR, settings.STATIC_URL)
