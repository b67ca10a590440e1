"""What tests share: real records, real stores, and nothing that pretends."""
