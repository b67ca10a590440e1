"""The evaluation of retrieval: graded sets from outside, and decisions whose right answer was planted.

graded        texts, queries and grades as published; measures  the figures over a ranked list
sources       one graded set through the product's own index, beside independent implementations
vectors       vectors that are made once and kept
planting      groups of evidence with a question; tables  published tables with one
asking        from a Ledger to Recall Input and answers
score         figures, intervals, thresholds; transformations  what must not change them
fit           the weights of the Retrieval Policy, from the development half
evaluate      all of it, as one report
"""
