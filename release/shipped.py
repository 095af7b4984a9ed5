"""The files that come with the software: templates, and the sample project.

A wheel holds them inside the package; an editable install leaves them in the checkout.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from release.errors import StorageError, UsageError

SAMPLE_NOW = "2026-03-30T09:00:00+01:00"
"""Just after the sample data's last week."""
_SAMPLE = ("dp-release.toml", "jobs", "data/ratings.parquet", "data/products.csv")
# The ledger is a secret in part, and neither it nor the data belongs into a repository.
_IGNORED = "/state/\n/data/\n"


def folder() -> Path:
    """Where the shipped files lie."""
    package = Path(__file__).resolve().parent
    packed = package / "_sample"
    return packed if packed.is_dir() else package.parent


def copy_sample(target: Path) -> None:
    """Writes a new project that runs as it is; raises UsageError where something is already."""
    try:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise UsageError(
                f"{target}: is there already and not an empty folder", hint="Name a new folder."
            )
        target.mkdir(parents=True, exist_ok=True)
        for name in _SAMPLE:
            source = folder() / name
            if source.is_dir():
                shutil.copytree(source, target / name)
            else:
                (target / name).parent.mkdir(exist_ok=True)
                shutil.copy(source, target / name)
        (target / ".gitignore").write_text(_IGNORED, encoding="utf-8")
    except OSError as error:
        raise StorageError(
            f"{target}: cannot be written ({error.strerror or type(error).__name__})",
            hint="Name a folder that you may write to, on a disk with room.",
        ) from None
