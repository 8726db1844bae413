"""Audits of a market's own log: what is exported, and how anyone verifies it offline."""
