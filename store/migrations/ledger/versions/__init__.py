"""One module for each revision, and beside it the statements that it runs."""
