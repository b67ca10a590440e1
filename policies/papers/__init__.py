"""Numbers in the text of a paper, and the results that stand behind them (spec 003, principle 6).

- `policy`: the words and units that are known.
- `prose`: what of a text is prose: code, references, citations and dates are not.
- `numbers`: the numbers that stand in it, with place, precision and unit.
- `naming`: where a text names a metric, and which number that is about.
- `matching`: each number against the recorded values.
"""
