"""The Durable Runtime: schema, command algorithm and its two adapters."""
