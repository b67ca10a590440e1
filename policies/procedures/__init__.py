"""Procedures as pure policy: trajectories out of bundles, verdicts out of trajectories, checks of one execution.

- `policy`: the numbers and the allowlist.
- `trajectories`: what ran as one chain of changes, and what two of them share to be comparable.
- `drafting`: the typed procedure that a group of comparable trajectories describes.
- `judging`: what becomes of it; effect, gate and grade are those of rules.
- `execution`: the preflight and the account of one execution, from what was observed.
"""
