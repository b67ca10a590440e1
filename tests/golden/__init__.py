"""Golden vectors: what must never change unseen. `python -m tests.golden.rewrite` writes them again, deliberately."""
