"""Which scope field explains why the evidence of a variant disagrees (spec 10, scope split; docs/adr/0031).

Pure. A field explains it if the parts that its values make do not have one mean: Welch's test between parts, at the
level of the gate divided by the number of fields that can be tested. The first field in the order of the policy wins.
Parts without an interval of their own are drafted like the others, but test nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from policies.distillation_policy import ScopeField
from policies.effects import EffectSummary, figure
from policies.statistics import Part, parts_differ


def explaining_field(parts: Mapping[ScopeField, Sequence[EffectSummary]], q: float) -> ScopeField | None:
    """Return the field that explains the disagreement, or None.

    Args:
        parts: the effects of the parts by the field that makes them, in the order of the policy.
        q: the level of the gate.
    """
    testable = {name: found for name, summaries in parts.items() if len(found := _tested(summaries)) > 1}
    level = q / max(len(testable), 1)
    return next((name for name, found in testable.items() if figure(parts_differ(found)) <= level), None)


def _tested(summaries: Sequence[EffectSummary]) -> list[Part]:
    # Equal values have no variance to test against: on a coarse metric they would explain any difference for certain.
    return [summary.part for summary in summaries if summary.part is not None and summary.part.variance > 0]
