"""Frozen records, typed ids, canonical bytes, state tables and errors: the leaf that every other package may import."""
