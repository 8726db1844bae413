"""The append-only release log: leaves, tree, signed heads."""
