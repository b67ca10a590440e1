"""The face of Verified Research Memory: what outsiders import."""
