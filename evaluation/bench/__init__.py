"""Benchmarks of the hot paths against named references, measured in the same run on the same server.

- `measuring`: interleaved rounds, percentiles, medians of ratios.
- `server`: a throw-away Postgres with the settings of a real one.
- `references`: what the figures are divided by.
- `corpus`, `decision`: records of real shape, without meaning; `deciding`: decisions through the real owners.
- `ledger`, `recall`, `protocol`: the benchmarks; `soak`: one Ledger as it grows.

A ratio is a fact about one machine in one minute; no test compares one with a limit. docs/performance.md says how to
read them.
"""
