"""What becomes of claims about a code base, what is shown of them, and what is learned in the shadow (spec 004).

- `arrows`: the states of a claim and the fold of its events.
- `policy`: the numbers of all of it, in versioned files.
- `likeness`: when two texts say the same, and when they contradict each other.
- `lifecycle`: what happens to a claim that is added, promoted, contested, resolved, revised or found stale.
- `selection`: which relevant claims are shown, by quota and budget.
- `rendering`: claims as a section of a prompt.
- `reward`: what an outcome counts.
- `shadow`: the policy that learns from receipts and decides nothing.
- `gates`: what would have to hold before it could.
"""
