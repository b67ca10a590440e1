"""Does the writer decide rightly? Evidence with planted truth, written by the product's own path, and a score.

- `ranges`: sizes of effects, spreads and designs, with where each figure comes from; `planting` draws from them.
- `groups`: what a group is: planned runs, what was planted, what must become active.
- `effects`, `evidence`, `history`: how the groups of each kind are planted; `kinds` registers them in one table.
- `corpus`: the groups of a seed.
- `trials`: planned runs as records; `path`: these records through receipts, snapshot, distiller and lifecycle.
- `reading`: what the Ledger ends up holding about a group; `score`, `evaluate`: figures with intervals; `plot`.

Everything is decided by the seed. The evidence is synthetic: it can show that the writer keeps its rules and how often
chance deceives it, and nothing about any real domain (docs/evaluation-writer.md).
"""
