"""How good the memory is: fits, benchmarks and named comparisons."""
