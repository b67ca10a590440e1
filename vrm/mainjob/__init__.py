"""The main job: real experiments in, verified rules out, held-out decisions recalled, taken, run and accounted for."""
