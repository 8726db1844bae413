"""What is on sale: datasets, their immutable snapshots, and products."""
