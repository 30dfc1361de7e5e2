"""New passwords are shown on a terminal only; elsewhere they are written to a private file, because output is kept in logs."""

import os
import sys
from pathlib import Path
from typing import TextIO

from qmq.private_files import make_private_dir, replace_secret

FILE = "initial_passwords"
"""File in the data folder; a line is a username, a space and a password."""


def command(words: str) -> str:
    """Returns the command line of a command of the console, as this process was started: installed, or in a source tree."""
    program = os.path.basename(sys.argv[0])
    return f"python manage.py {words}" if program == "manage.py" else f"qmq-console {words}"


def hand_out(name: str, password: str, *, out: TextIO, data_dir: Path) -> str:
    """Return what to print after "password": the password itself on a terminal, else the file it was written to.

    Raises:
        OSError: the file can't be written.
        SettingError: the data folder belongs to another user.
    """
    if out.isatty():
        return password
    make_private_dir(str(data_dir))
    path = data_dir / FILE
    lines = path.read_text().splitlines() if path.exists() else []
    others = [line for line in lines if line.partition(" ")[0] != name]
    replace_secret(str(path), "\n".join([*others, f"{name} {password}"]))
    return f"in {path}"
