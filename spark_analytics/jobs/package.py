"""The zip that executors on other machines need: `spark-submit --py-files`.

The jobs are in it too, though executors run none: spark-submit puts it before everything else on the driver's path as well.
"""

import zipfile
from pathlib import Path

NAME = "pyqmq-analytics.zip"
PACKAGES = ("qmq", "spark_analytics")
_EPOCH = (1980, 1, 1, 0, 0, 0)


def write_package(folder: Path) -> Path:
    """Write the zip into a folder; where it is. The same code gives the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    root = Path(__file__).resolve().parent.parent.parent
    target = folder / NAME
    draft = target.with_suffix(".draft")
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(path for package in PACKAGES for path in (root / package).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), path.read_bytes(), zipfile.ZIP_DEFLATED)
    draft.replace(target)
    return target
