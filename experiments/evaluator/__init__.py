"""The independent evaluator: a process of its own that recomputes metrics from stored predictions and hidden labels.

Whoever runs an experiment writes predictions and never sees validation or test labels; whoever computes the metric
sees the labels and runs no experiment. `client.evaluate` is the only way in.
"""
