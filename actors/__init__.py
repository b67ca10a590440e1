"""Who acts: one owner per piece of state; the only package that knows Ray."""
