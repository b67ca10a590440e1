"""What is remembered: the only SQL and the only files."""
