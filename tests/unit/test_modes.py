"""The modes against the table of specification section 18, written down a second time."""

from __future__ import annotations

import itertools

import pytest

from policies.modes import Lane, RecallPath, arms_of, may_require, rules_of
from policies.retrieval_policy import RetrievalPolicy, retrieval_policy, shipped_policies
from records.canonical import canonical_bytes, digest_bytes
from records.errors import InvalidInputError, InvalidRecordError, NotFoundError
from records.governance import FrozenMemoryProfile, Mode, read_profile
from records.ids import RecallInputId
from records.values import RecallRequirement
from vrm.mainjob.plan import SMALL, FrozenInput, Round
from vrm.mainjob.trials import arm_profiles

SPECIFIED = """
off             no   no           no                            no
record_only     yes  no           no                            no
legacy_recall   yes  legacy-only  legacy-only                   legacy-only
memory_shadow   yes  yes          compute-but-do-not-expose     yes
decision_memory yes  yes          expose                        yes
frozen_memory   yes  no           exact-frozen-snapshot         no
"""
LANES = {"no": Lane.NONE, "legacy-only": Lane.LEGACY, "yes": Lane.VERIFIED}
PATHS = {
    "no": RecallPath.NONE,
    "legacy-only": RecallPath.LEGACY,
    "compute-but-do-not-expose": RecallPath.SHADOW,
    "expose": RecallPath.EXPOSE,
    "exact-frozen-snapshot": RecallPath.FROZEN,
}


def test_the_table_is_that_of_the_specification() -> None:
    rows = [line.split() for line in SPECIFIED.strip().splitlines()]
    assert [row[0] for row in rows] == [mode.value for mode in Mode]
    for name, records, distils, recalls, mutates in rows:
        rules = rules_of(Mode(name))
        assert (rules.records, rules.distils) == (records == "yes", LANES[distils])
        assert (rules.recalls, rules.mutates) == (PATHS[recalls], LANES[mutates])


def test_only_modes_that_recall_verified_memory_may_require_it() -> None:
    assert {mode for mode in Mode if may_require(mode)} == {
        Mode.MEMORY_SHADOW, Mode.DECISION_MEMORY, Mode.FROZEN_MEMORY,
    }  # fmt: skip


def test_no_arm_has_two_memories_and_none_that_exposes_no_cards_requests_them() -> None:
    for modes in itertools.chain(((mode,) for mode in Mode), itertools.product(Mode, Mode)):
        try:
            arms = arms_of(modes)
        except InvalidInputError:
            continue
        assert len({arm.name for arm in arms}) == len(arms)
        assert arms[0].requirement is RecallRequirement.REGISTERED_NOT_REQUESTED
        for arm in arms:
            if arm.requirement is RecallRequirement.REQUIRED:
                assert may_require(arm.mode)
            if arm.mode is Mode.LEGACY_RECALL:
                assert arm.requirement is RecallRequirement.REGISTERED_NOT_REQUESTED
            assert arm.acts == (arm.name != "shadow")


def test_the_earlier_design_is_an_arm_of_its_own() -> None:
    names = [arm.name for arm in arms_of([Mode.DECISION_MEMORY, Mode.LEGACY_RECALL])]
    assert names == ["control", "memory", "legacy"]
    assert [arm.mode for arm in arms_of([Mode.LEGACY_RECALL])] == [Mode.RECORD_ONLY, Mode.LEGACY_RECALL]


@pytest.mark.parametrize(
    "modes",
    [
        [],
        [Mode.DECISION_MEMORY, Mode.FROZEN_MEMORY],
        [Mode.LEGACY_RECALL, Mode.DECISION_MEMORY],
        [Mode.OFF, Mode.LEGACY_RECALL],
        [Mode.RECORD_ONLY, Mode.LEGACY_RECALL],
        [Mode.DECISION_MEMORY, Mode.LEGACY_RECALL, Mode.LEGACY_RECALL],
    ],
)
def test_modes_exclude_each_other(modes: list[Mode]) -> None:
    with pytest.raises(InvalidInputError, match="--mode"):
        arms_of(modes)


STORED = (
    b'{"mode":"decision_memory","profile_ref":"decision_memory/v1","retrieval_policy":{"digest":"'
    + b"a" * 64
    + b'","policy_id":"retrieval","version":"1"}}'
)
"""A profile as the versions before modes were closed wrote it."""


def test_a_profile_that_was_stored_before_is_read_with_its_bytes() -> None:
    found = read_profile(STORED, digest_bytes(STORED))
    assert found.mode is Mode.DECISION_MEMORY
    assert found.canonical == STORED


@pytest.mark.parametrize("policy", shipped_policies(), ids=lambda each: f"{each.policy_id}-{each.version}")
def test_frozen_memory_is_under_the_policy_of_its_input(policy: RetrievalPolicy) -> None:
    """An input that pins an earlier policy, or the confirmatory one, has a profile and requests that say so."""
    frozen = FrozenInput(recall_input_id=RecallInputId.derive({}), retrieval_policy=policy.identity)
    round_ = Round(
        namespace="study", number=0, size=SMALL, modes=(Mode.FROZEN_MEMORY, Mode.LEGACY_RECALL), frozen_input=frozen
    )
    profiles = arm_profiles(round_)
    for arm in ("control", "memory"):
        profile = profiles[arm]
        assert isinstance(profile, FrozenMemoryProfile)
        assert (profile.retrieval_policy, profile.recall_input_id) == (policy.identity, frozen.recall_input_id)
    assert profiles["legacy"].retrieval_policy == retrieval_policy().identity
    assert round_.retrieval_policy == policy


def test_a_policy_that_does_not_ship_cannot_be_frozen() -> None:
    gone = retrieval_policy().identity.model_copy(update={"digest": "0" * 64})
    frozen = FrozenInput(recall_input_id=RecallInputId.derive({}), retrieval_policy=gone)
    round_ = Round(namespace="study", number=0, size=SMALL, modes=(Mode.FROZEN_MEMORY,), frozen_input=frozen)
    with pytest.raises(NotFoundError, match="retrieval policy"):
        _ = round_.retrieval_policy


def test_a_frozen_profile_names_its_input_and_no_other_does() -> None:
    policy = retrieval_policy().identity
    frozen = FrozenMemoryProfile(
        profile_ref="frozen_memory/v1", retrieval_policy=policy, recall_input_id=RecallInputId.derive({})
    )
    found = read_profile(frozen.canonical, frozen.canonical_digest)
    assert isinstance(found, FrozenMemoryProfile)
    assert found == frozen
    for wrong in (
        frozen.as_json() | {"mode": "decision_memory"},
        {key: value for key, value in frozen.as_json().items() if key != "recall_input_id"},
        frozen.as_json() | {"mode": "sometimes"},
        ["frozen_memory"],
    ):
        data = canonical_bytes(wrong)
        with pytest.raises(InvalidRecordError):
            read_profile(data, digest_bytes(data))
