"""The Snapshot-Selection Policy: which heads a Knowledge Snapshot takes in.

Rules kept here (spec 8.3, 12, VRM-L02, L05; docs/adr/0060):

- the default admits active heads only; contested heads come in under a policy of their own, `selection-contested`, from
  which Recall Inputs for diagnosis are made: a normal snapshot has none (spec 10), and no other profile shows them;
- a record that has ended, superseded or retracted, is admitted by no policy at all;
- version 2 admits rules and procedures; version 1, under which earlier snapshots were frozen, admits rules alone;
- nothing about retrieval or indexes is in it, so that neither can change the identity of a snapshot.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, field_validator

from policies.lifecycle_policy import ENDED
from policies.loading import Policy, packaged_policy
from records.values import Disposition, Grade

_VERSION: Final = "2"


class SelectionPolicy(Policy):
    """One version of the policy.

    Attributes:
        kinds: record kinds that may be members.
        dispositions: dispositions of the heads that may be members.
        grades: evidence-strength grades that may be members.
    """

    kinds: Annotated[tuple[Literal["semantic", "procedure"], ...], Field(min_length=1)]
    dispositions: Annotated[tuple[Disposition, ...], Field(min_length=1)]
    grades: Annotated[tuple[Grade, ...], Field(min_length=1)]

    @field_validator("dispositions")
    @classmethod
    def _none_that_ended(cls, dispositions: tuple[Disposition, ...]) -> tuple[Disposition, ...]:
        if ENDED & set(dispositions):
            raise ValueError("a superseded or retracted record is never selected")
        return dispositions

    def admits(self, kind: str, disposition: Disposition, grade: Grade) -> bool:
        """Tell whether a head of this kind, disposition and grade is a member."""
        return kind in self.kinds and disposition in self.dispositions and grade in self.grades


def selection_policy(version: str = _VERSION) -> SelectionPolicy:
    """Return the packaged policy of a version.

    Raises:
        InvalidInputError: no such version ships.
    """
    return packaged_policy(SelectionPolicy, "selection", version)


def contested_selection(version: str = "1") -> SelectionPolicy:
    """Return the packaged policy that admits contested heads beside active ones, of a version.

    Raises:
        InvalidInputError: no such version ships.
    """
    return packaged_policy(SelectionPolicy, "selection-contested", version)
