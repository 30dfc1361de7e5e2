"""What the processes of Celery import."""

import subprocess
import sys

STARTED = """
import sys
from console.celery import app
app.loader.import_default_modules()
assert "console.run_job" in app.tasks, sorted(app.tasks)
print("api" in sys.modules)
"""


def test_a_worker_that_has_started_has_not_imported_the_rest_api() -> None:
    """It is 30 MiB of each worker and of beat."""
    done = subprocess.run([sys.executable, "-c", STARTED], capture_output=True, text=True, check=False)
    assert done.stdout == "False\n", done.stderr
