"""Real experiments and the evaluator that does not trust them.

`tabular` runs scikit-learn pipelines on public tables; `evaluator` is a separate process that recomputes every metric
from stored predictions and labels that only it reads. Nothing here knows of the ledger, of knowledge or of actors.
"""
