"""The drafting seam: who words a candidate, what is told to them, and what of their answer is taken (docs/adr/0033).

A drafter makes words and nothing else. Eligibility, confidence, disposition, scope, effect, mechanism class and
evidence links are decided before it is asked, from the structured facts (VRM-W08).
"""
