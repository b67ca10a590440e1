"""What a Recall Input is made for, and the two policies that follow: which heads are selected, how they are recalled.

Pure. Rules kept here (spec 4.9, 12, 18; docs/adr/0064):

- a normal input, and a confirmatory one, are made from active heads alone; contested heads are for diagnosis, during
  development;
- a confirmatory input pins the policy without fallback, so nobody chooses that at the request: a round that queries it
  as frozen memory is confirmatory by its input.
"""

from __future__ import annotations

from enum import StrEnum

from policies.retrieval_policy import RetrievalPolicy, confirmatory_policy, retrieval_policy
from policies.selection_policy import SelectionPolicy, contested_selection, selection_policy


class Purpose(StrEnum):
    """What a Recall Input is made for."""

    NORMAL = "normal"
    DIAGNOSIS = "diagnosis"
    CONFIRMATORY = "confirmatory"


def selection_for(purpose: Purpose) -> SelectionPolicy:
    """Return the policy by which the heads of an input are selected."""
    return contested_selection() if purpose is Purpose.DIAGNOSIS else selection_policy()


def retrieval_for(purpose: Purpose) -> RetrievalPolicy:
    """Return the policy that an input pins and is answered under."""
    return confirmatory_policy() if purpose is Purpose.CONFIRMATORY else retrieval_policy()
