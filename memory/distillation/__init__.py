"""Comparative distillation: an Evidence Snapshot read and judged once, and one complete proposal per work item."""
