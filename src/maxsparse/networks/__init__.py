"""Networks that learn to recover: one architecture per file."""
