"""The error family of the project.

    VrmError
    ├── InvalidInputError            a value from outside is refused
    │   ├── InvalidRecordError       ... as the field of a record
    │   ├── InvalidSourceError       ... as the content of a file that is imported
    │   └── AmbiguousIdError         ... as an id prefix that names several records
    ├── NotFoundError                an id that the store does not hold
    │   └── ErasedError              ... as artifact bytes that retention erased, which never come back
    ├── IdentityConflictError        same identity or key, other bytes; nothing written
    ├── IntegrityError               stored rows contradict each other; fail closed
    │   ├── IntegrityWaitError       ... as Ledger and Runtime that disagree on a Run's decisions; the Run waits
    │   └── SchemaError              ... as a schema that is missing, foreign, partial or of an unknown revision
    │       └── OutdatedSchemaError  ... as a whole one of an earlier revision, which `vrm migrate` brings up to date
    ├── IllegalTransitionError       a state machine has no such arrow
    ├── CommitArbitrationBusyError   a grant of the Run is unresolved; nothing was changed
    ├── BudgetExceededError          a charge goes over a limit of the Run's budget; nothing was changed
    ├── StaleError                   an expected version, generation or head has moved on
    ├── FencedError                  another owner has claimed the resource
    ├── EvidenceError                a bundle is incomplete or does not cross-validate
    ├── ProcedureBlockedError        what a procedure needs is not so here; nothing was run
    ├── EvaluatorError               the independent evaluator failed, hung or answered nonsense
    └── UnavailableError             a service (Postgres, Ray, a model) cannot be used now

Rules: every error names a field, the value met there and the remedy; all three travel positionally so that the
error survives pickling across processes; `__str__` formats them. Caller misuse (a bug in our own code) raises
`ValueError` or `RuntimeError` instead.
"""

from __future__ import annotations

import re
from typing import Final

_SHOWN: Final = 160
_SHOWN_REMEDY: Final = 8_000
_UNSHOWABLE: Final = re.compile("[\0\ud800-\udfff]")


class VrmError(Exception):
    """Something that a user can act on: `field` is what was wrong, `value` what was met, `remedy` what to do."""

    def __init__(self, field: str, value: object, remedy: str) -> None:
        """Keep the three facts as text that any terminal shows and any encoding takes, each shortened if it is long."""
        self.field = _shown(field, _SHOWN)
        self.value = _shown(value, _SHOWN)
        self.remedy = _shown(remedy, _SHOWN_REMEDY)
        super().__init__(self.field, self.value, self.remedy)

    def __str__(self) -> str:
        """Return one line: field, value, remedy."""
        return f"{self.field}: {self.value}. {self.remedy}"

    def as_dict(self) -> dict[str, str]:
        """Return the error for `--json` output."""
        return {"error": type(self).__name__, "field": self.field, "value": self.value, "remedy": self.remedy}


def _shown(value: object, limit: int) -> str:
    """Return a value as text of bounded length; NUL characters and lone surrogates are written as escapes."""
    if isinstance(value, bytes) and len(value) > limit:
        return f"{value[:limit]!r}… ({len(value)} bytes)"
    whole = value if isinstance(value, str) else repr(value)
    text = _UNSHOWABLE.sub(lambda found: ascii(found[0])[1:-1], whole[:limit])
    return text if len(whole) <= limit else f"{text}… ({len(whole)} characters)"


class InvalidInputError(VrmError):
    """A value from outside is refused."""


class InvalidRecordError(InvalidInputError):
    """A field of a record holds a value that the record kind refuses."""


class InvalidSourceError(InvalidInputError):
    """A file to be imported is damaged, incomplete or of another shape."""


class AmbiguousIdError(InvalidInputError):
    """An id prefix names several records."""


class NotFoundError(VrmError):
    """The store holds no such record."""


class ErasedError(NotFoundError):
    """Artifact bytes were erased by retention; they are not there and cannot be published again."""


class IdentityConflictError(VrmError):
    """The same id or operation key was used with other content; nothing was written."""


class IntegrityError(VrmError):
    """Stored rows contradict each other."""


class IntegrityWaitError(IntegrityError):
    """Ledger and Runtime do not hold the same decisions of a Run; it waits for a person and ends in no state."""


class SchemaError(IntegrityError):
    """A database holds another schema than this program's, or a damaged one; nothing was touched."""


class OutdatedSchemaError(SchemaError):
    """A database holds an earlier revision of the schema; `vrm migrate` brings it up to date."""


class IllegalTransitionError(VrmError):
    """The state machine has no arrow for this event from this phase."""


class CommitArbitrationBusyError(VrmError):
    """A grant of the Run is unresolved, so it cannot be paused now; recover the grant first."""


class BudgetExceededError(VrmError):
    """A charge goes over a limit of the Run's Budget Envelope; the work it is for does not begin."""


class StaleError(VrmError):
    """An expected version, generation, fence or head has moved on; read again and decide again."""


class FencedError(VrmError):
    """Another owner has claimed this resource; this process must stop writing."""


class EvidenceError(VrmError):
    """A Verified Evidence Bundle is incomplete or does not cross-validate."""


class ProcedureBlockedError(VrmError):
    """A procedure needs another tool version, catalog or situation than there is here; nothing was run."""


class EvaluatorError(VrmError):
    """The independent evaluator failed, hung or gave an answer that is not a result."""


class UnavailableError(VrmError):
    """A service that is needed cannot be used now."""
