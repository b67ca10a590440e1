"""What is decided: pure functions and versioned numbers."""
