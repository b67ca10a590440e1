"""Stores filled for tests: a world in which every kind of append has really happened."""
