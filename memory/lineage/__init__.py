"""Lineage memory: what the nodes of a search tree reported, and what is remembered of them (spec 003)."""
