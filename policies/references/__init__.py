"""How reference sources are cut into chunks, found and shown (spec 8.5).

- `policy`: the Reference Policy.
- `chunking`: a text with its structure into chunks within a token limit.
- `rendering`: Reference Cards as a section of a prompt, apart from Evidence Cards.
"""
