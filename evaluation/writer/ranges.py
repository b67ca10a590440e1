"""The figures that groups are drawn from, declared before anything was measured with them.

Every range is that of real experiments, or says that it is a choice. "hpobench" is the extract in
importers/data/hpobench_mlp: 6 roots, 5 seeds, 8 one-knob changes; a test recomputes what is taken from it. "sklearn"
are the 3,780 fits on 36 roots that docs/adr/0030 tells of.
"""

from __future__ import annotations

from typing import Final

Range = tuple[float, float]

MARGIN: Final = 0.01
"""Equivalence margin of every contract, in the unit of the metric: that of hpobench's manifest."""

EFFECT: Final[Range] = (0.03, 0.12)
"""Size of a planted effect: from hpobench's larger step size (-0.030) to class weights on imbalanced tasks (+0.117)."""

SPREAD: Final[Range] = (0.3, 0.85)
"""Standard deviation between roots by size of the effect. The upper end is that of class weights on imbalanced tasks
(0.099 by 0.117); the lower end is a choice, for no narrower scope was measured."""

WIDE: Final[Range] = (2.0, 4.0)
"""The same where roots disagree: sklearn changes over all kinds of tasks lie from 1.3 to beyond 4."""

NOISE: Final[Range] = (0.0066, 0.0179)
"""Standard deviation between seeds of one root's difference: the middle half of hpobench's 48 (root, change) cells."""

QUIET: Final[Range] = (0.0005, 0.002)
"""The same on the quietest root of hpobench, where a null can be shown with few seeds: third root, four of eight."""

NULL_SPREAD: Final[Range] = (0.002, 0.0057)
"""Standard deviation between roots of a change that does nothing: up to that of hpobench's weaker penalty (0.0057)."""

SMALL: Final[Range] = (0.002, 0.005)
"""An effect that is real and does not matter: at most half the margin; hpobench's penalty moves 0.001 to 0.003."""

ROOTS: Final = (6, 10)
"""Independent roots of a scope: six in hpobench; ten is a choice, for the sake of running time."""

SEEDS: Final = (1, 2)
"""Seeds of a root: one where a table has no repeats; two, not the five of hpobench, for the sake of running time."""

BASELINE: Final[Range] = (0.4, 0.6)
"""Metric of the baseline; a choice that no planted effect leaves [0, 1] from. Only differences are used."""

LUCK: Final[Range] = (0.1, 0.2)
"""What a lucky run shows where there is nothing: a choice, beyond every real effect."""

CAMPS: Final[Range] = (0.09, 0.11)
"""Where the two camps of a stratum that disagrees with itself lie, at either side of zero; a choice (docs/adr/0030)."""

CAMP_NOISE: Final = 0.01
CAMP_SEEDS: Final = 10
"""Spread and seeds of each camp: the case for which docs/adr/0030 states the power."""

AGAINST: Final = 0.25
"""A change is a rule for a scope only if it moves at most this share of its roots the other way: the quarter that the
Distillation Policy's lower quantile allows."""

COPIES: Final = (1, 2)
"""How often evidence is imported again; a choice."""

TRIES: Final = 8
"""Changes that are tried side by side where none does anything: as many as hpobench registers."""
