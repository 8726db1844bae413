"""Ledgers in exact integers: filters that decide before anything is revealed, and the charge of a chain."""
