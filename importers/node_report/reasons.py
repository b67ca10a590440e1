"""Why a node's report is not taken: a closed list of codes, each with its remedy."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from records.errors import InvalidSourceError


class RefusalCode(StrEnum):
    """What keeps a report out."""

    UNREADABLE = "unreadable"
    NOT_JSON = "not_json"
    SCHEMA_VERSION = "schema_version"
    MISSING_FIELD = "missing_field"
    WRONG_TYPE = "wrong_type"
    UNKNOWN_VALUE = "unknown_value"
    NOT_FINAL = "not_final"
    UNSAFE_PATH = "unsafe_path"
    NAMED_TWICE = "named_twice"
    LINK = "link"
    NOT_REGULAR = "not_regular"
    ELSEWHERE = "elsewhere"
    CIRCLE = "circle"
    ANCESTORS_CONTRADICT = "ancestors_contradict"
    DEPTH_CONTRADICTS = "depth_contradicts"
    PARENT_MISSING = "parent_missing"
    REPORT_CHANGED = "report_changed"
    DENIED = "denied"
    NOT_APPENDED = "not_appended"


REMEDIES: Final = {
    RefusalCode.UNREADABLE: "Give a regular file that can be read, within the size that the policy allows.",
    RefusalCode.NOT_JSON: "Give one JSON object in UTF-8, each key once.",
    RefusalCode.SCHEMA_VERSION: "Reports of schema version 1 are read.",
    RefusalCode.MISSING_FIELD: "The published schema requires it; let the search write it.",
    RefusalCode.WRONG_TYPE: "Give the type that the published schema says.",
    RefusalCode.UNKNOWN_VALUE: "Give a value that the published schema knows.",
    RefusalCode.NOT_FINAL: "Import the report once the node has ended.",
    RefusalCode.UNSAFE_PATH: "Name files by relative paths that stay inside the node's folder.",
    RefusalCode.NAMED_TWICE: "Name each file once.",
    RefusalCode.LINK: "No part of a path may be a symbolic link; put the file itself there.",
    RefusalCode.NOT_REGULAR: "Only regular files are artifacts.",
    RefusalCode.ELSEWHERE: "A report stands in <root>/<run>/<node>/, under the names that it gives.",
    RefusalCode.CIRCLE: "A node is not its own ancestor; mend parent_id.",
    RefusalCode.ANCESTORS_CONTRADICT: "The ancestors of a node are its parent's and the parent, from the root.",
    RefusalCode.DEPTH_CONTRADICTS: "The depth of a node is the number of its ancestors.",
    RefusalCode.PARENT_MISSING: "Import the parent's report first, or together with it.",
    RefusalCode.REPORT_CHANGED: "A node's report is never replaced; give what is new a node of its own.",
    RefusalCode.DENIED: "Retention erased it; it is not imported again.",
    RefusalCode.NOT_APPENDED: "Read the error; what was imported stays, and the same command goes on.",
}


class Refused(Exception):  # noqa: N818  # an answer, which the importer turns into an error with file and remedy
    """A report is not taken: the code, the field that it concerns, and what was met there."""

    def __init__(self, code: RefusalCode, field: str, met: object) -> None:
        """Name code, field and what was met."""
        super().__init__(code, field, met)
        self.code = code
        self.field = field
        self.met = met

    def error(self, path: str) -> InvalidSourceError:
        """Return the error for a file."""
        shown = self.met if isinstance(self.met, str) else repr(self.met)
        return InvalidSourceError(f"{path}: {self.field}", f"{self.code.value}: {shown}", REMEDIES[self.code])
