"""Observability of the chain: what is read of decisions, which events are told, what costs, what is counted."""
