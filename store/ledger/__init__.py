"""The Experiment Ledger: schema, commit algorithm and its two adapters."""
