"""Multi-tier differential privacy: exact noise, chains of tiers, ledgers and audits. Pure: no I/O, no clock."""
