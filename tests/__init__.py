"""Tests: unit, contract, cluster, acceptance."""
