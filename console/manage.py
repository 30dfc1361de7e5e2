"""Django's entry: `manage.py` in the project, `qmq-console` where a wheel is installed.

Nodes are started before Django is imported, because they run without it.
"""

import os
import sys

NODES = {"broker_node", "delay_node"}


def main() -> None:
    """Run a command."""
    if len(sys.argv) > 1 and sys.argv[1] in NODES:
        os.execv(sys.executable, [sys.executable, "-m", sys.argv[1], *sys.argv[2:]])
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
