"""Evidence from files that other trackers wrote."""
