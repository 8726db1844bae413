"""One answer in several formats: the same numbers, one row a key."""
