"""The deep modules: each joins a store and a policy, and runs without Ray."""
