"""The chain of the Runtime's schema."""
