"""Builds of the front end."""

import gzip
import os
from pathlib import Path

from console.http.frontend import NONCE_PLACEHOLDER

SCRIPT = b"console.log('hello');\n" * 50


def put_build(folder: Path, name: str = "main-Ab12Cd34.js", text: str = "first") -> Path:
    """A build as `make frontend` leaves it, in a folder that is there as a whole or not at all."""
    new = folder.with_name(f"{folder.name}.new")
    (new / "assets").mkdir(parents=True)
    (new / ".vite").mkdir()
    (new / ".vite/manifest.json").write_text("{}")
    (new / "index.html").write_text(f'<meta name="csp-nonce" content="{NONCE_PLACEHOLDER}"><p>{text}')
    (new / "favicon.svg").write_text("<svg/>")
    (new / "assets" / name).write_bytes(SCRIPT)
    (new / "assets" / f"{name}.gz").write_bytes(gzip.compress(SCRIPT))
    (new / "assets" / f"{name}.br").write_bytes(b"brotli, as far as the server knows")
    if folder.exists():
        os.rename(folder, folder.with_name(f"{folder.name}.old"))
    os.rename(new, folder)
    return folder
