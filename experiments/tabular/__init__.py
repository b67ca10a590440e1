"""Tabular classification experiments: tables, the custodian that hides labels, and the pipelines that are fitted."""
