"""Pure checks over what a market claims: each returns findings, never a bare yes."""
