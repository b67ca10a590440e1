"""What `vrm claims` is given, as records: predicates of what is there, evidence with its digest, closed words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from records.errors import InvalidInputError

if TYPE_CHECKING:
    from memory.workspace.place import Workspace
    from records.workspace import EvidenceEvent, Predicate, WorkspaceClaim

E = TypeVar("E", bound=StrEnum)
_DIGEST = "sha256:"


def member(kind: type[E], option: str, text: str) -> E:
    """Return a word as the member of a closed set.

    Raises:
        InvalidInputError: it is none.
    """
    try:
        return kind(text)
    except ValueError:
        raise InvalidInputError(option, text, f"Give one of: {', '.join(kind)}.") from None


def evidence_of(pairs: Iterable[str] | None) -> tuple[EvidenceEvent, ...]:
    """Return events of evidence with the digests of what they said.

    Raises:
        InvalidInputError: a pair is none, or its file cannot be read.
    """
    from records.canonical import digest_bytes  # noqa: PLC0415  # help does without
    from records.workspace import EvidenceEvent  # noqa: PLC0415

    made = []
    for pair in pairs or ():
        event, mark, said = pair.partition("=")
        if not mark or not event or not said:
            raise InvalidInputError("--evidence", pair, "Give EVENT=FILE or EVENT=sha256:DIGEST.")
        try:
            found = said.removeprefix(_DIGEST) if said.startswith(_DIGEST) else digest_bytes(Path(said).read_bytes())
        except (OSError, ValueError) as error:
            raise InvalidInputError("--evidence", pair, "Name a file that can be read.") from error
        made.append(EvidenceEvent.build(event_id=event, content_digest=found))
    return tuple(made)


def predicates_of(root: Path, files: Iterable[str], values: Iterable[str], *, head: bool) -> tuple[Predicate, ...]:
    """Return predicates on what a workspace holds now.

    Raises:
        InvalidInputError: a file, a value or a commit is not there, or is none that is read.
    """
    from memory.workspace import place  # noqa: PLC0415  # as above

    with place.Workspace(root) as opened:
        made = [_file(opened, path) for path in files] + [_value(opened, each) for each in values]
        return (*made, _head(opened)) if head else tuple(made)


def _limits(name: str) -> Any:
    from memory.workspace.contents import Limits  # noqa: PLC0415  # as above
    from policies.workspace.recall import claim_recall_policy  # noqa: PLC0415

    rule = claim_recall_policy().predicates
    return Limits(getattr(rule, name), rule.seconds)


def _read(opened: Workspace, path: str, limit: str) -> bytes:
    from memory.workspace.contents import whole  # noqa: PLC0415  # as above
    from memory.workspace.place import CheckRefused  # noqa: PLC0415

    try:
        with opened.opened(path) as file:
            return whole(file, _limits(limit))
    except (CheckRefused, OSError) as error:
        remedy = "Name a regular file below the root, by its path from there, without links."
        raise InvalidInputError("file", f"{path}: {error}", remedy) from error


def _file(opened: Workspace, path: str) -> Predicate:
    from records.canonical import digest_bytes  # noqa: PLC0415  # as above
    from records.workspace import FileHash  # noqa: PLC0415

    return FileHash.build(path=path, sha256=digest_bytes(_read(opened, path, "max_bytes")))


def _value(opened: Workspace, given: str) -> Predicate:
    from memory.workspace.place import CheckRefused  # noqa: PLC0415  # as above
    from memory.workspace.predicates import value_at, value_digest  # noqa: PLC0415
    from records.canonical import parse_canonical  # noqa: PLC0415
    from records.workspace import ConfigValue  # noqa: PLC0415

    path, mark, name = given.partition("#")
    if not mark or not name:
        raise InvalidInputError("--value", given, "Give FILE#KEY, such as config.json#retry.limit.")
    key = key_of(name)
    try:
        value = value_at(parse_canonical(_read(opened, path, "max_config_bytes")), key)
    except CheckRefused as error:
        raise InvalidInputError("--value", given, "The file has no such value.") from error
    return ConfigValue.build(path=path, key=key, sha256=value_digest(value))


def key_of(name: str) -> tuple[str, ...]:
    """Return the names of a place in a JSON document: `a.b`, or a JSON pointer (RFC 6901) if a name has a dot."""
    if name.startswith("/"):
        return tuple(part.replace("~1", "/").replace("~0", "~") for part in name[1:].split("/"))
    return tuple(name.split("."))


def _head(opened: Workspace) -> Predicate:
    import time  # noqa: PLC0415  # as above

    from memory.workspace.place import CheckRefused  # noqa: PLC0415
    from memory.workspace.revision import head_of  # noqa: PLC0415
    from records.workspace import GitRevision  # noqa: PLC0415

    try:
        return GitRevision(revision=head_of(opened, _limits("max_config_bytes"), time.monotonic))
    except (CheckRefused, OSError) as error:
        remedy = "The root must hold its own .git folder, with a commit."
        raise InvalidInputError("--head", str(error), remedy) from error


def claim_of(
    text: str, predicates: Sequence[Predicate], evidence: Sequence[EvidenceEvent], **words: Any
) -> WorkspaceClaim:
    """Return the claim that was given; `words` are the closed ones, and where it belongs.

    Raises:
        InvalidInputError: one of them is none.
    """
    import unicodedata  # noqa: PLC0415  # as above

    from actors.settings import now  # noqa: PLC0415
    from records.canonical import metric_text  # noqa: PLC0415
    from records.workspace import (  # noqa: PLC0415
        ClaimSource,
        ClaimStatus,
        ClaimType,
        EvidenceCertificate,
        Trust,
        WorkspaceClaim,
    )

    certificate = EvidenceCertificate.build(
        extractor_version=words["extractor"], claim_schema_version="1", evidence=tuple(evidence)
    )
    return WorkspaceClaim.build(
        namespace=words["namespace"],
        created_at=now(),
        workspace=words["workspace"],
        text=unicodedata.normalize("NFC", text),
        claim_type=member(ClaimType, "--kind", words["kind"]),
        trust=member(Trust, "--trust", words["trust"]),
        status=member(ClaimStatus, "--status", words["status"]),
        source=member(ClaimSource, "--source", words["source"]),
        confidence=metric_text(words["confidence"]),
        predicates=tuple(predicates),
        certificate=certificate,
    )
