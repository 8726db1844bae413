"""Redis: faster answers, no decisions. It may vanish, lie or be wiped at any moment."""
