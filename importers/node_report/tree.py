"""Where reports stand on the disk: `<root>/<run>/<node>/node_report.json`, parents before children.

Rules kept here: folders are walked without following links; a report counts for the node and the run that its folders
are named after, unless another run is given; of several nodes a parent comes before its children, and a circle is no
tree.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from records.errors import InvalidSourceError

NAME: Final = "node_report.json"


@dataclass(frozen=True, slots=True)
class Located:
    """A report on the disk: the folder of its node, and the run and the node that the folders are named after."""

    folder: Path
    checkpoint_id: str
    node_id: str

    @property
    def path(self) -> str:
        """The report's own path, as it is told."""
        return str(self.folder / NAME)


def locate(paths: Iterable[Path], checkpoint_id: str | None = None) -> list[Located]:
    """Return the reports that paths stand for, each once, in the order of their folders.

    Args:
        paths: reports, or folders that hold some, however deep.
        checkpoint_id: the run that all of them are of; null is the folder above each node's.

    Raises:
        InvalidSourceError: a path does not exist, is no report, or holds none.
    """
    found: dict[Path, Located] = {}
    for path in paths:
        inside = [Path(os.path.abspath(each)) for each in _reports(path)]  # noqa: PTH100  # links stay what they are
        if not inside:
            raise InvalidSourceError(str(path), f"no {NAME} in it", "Name a report, or a folder that holds some.")
        for each in inside:
            folder = each.parent
            found.setdefault(folder, Located(folder, checkpoint_id or folder.parent.name, folder.name))
    return sorted(found.values(), key=lambda each: str(each.folder))


def _reports(path: Path) -> Iterator[Path]:
    if path.is_dir() and not path.is_symlink():
        for folder, folders, names in os.walk(path):
            folders.sort()
            if NAME in names:
                yield Path(folder) / NAME
    elif path.name == NAME and (path.exists() or path.is_symlink()):
        yield path
    elif path.exists():
        raise InvalidSourceError(str(path), f"not named {NAME}", "Name a report, or a folder that holds some.")
    else:
        raise InvalidSourceError(str(path), "no such file or folder", "Name a file or folder that exists.")
