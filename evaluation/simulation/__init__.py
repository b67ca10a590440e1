"""The whole write path on in-memory stores, run under a seeded scheduler that breaks it wherever it can.

- `strands`: participants that run one at a time, each until its next step.
- `faults`: what may happen at a step, and how a seed draws it.
- `world`: what survives (the stores), and the owners that come and go over them.
- `lines`: the ports that a participant is given; every call over them is a step.
- `material`, `trials`, `beginnings`: records made once, and what there is when a schedule begins.
- `roles`: what the participants do.
- `invariants`, `between`, `ending`: what must hold after every step, between the two stores, and at the end.
- `schedule`: one seed. `campaign`: many. `planted`: bugs of the protocol that the checks must find.

A schedule is decided by its seed alone: no clock, no thread timing and no hash order enters it, so a failing seed
replays exactly.
"""
