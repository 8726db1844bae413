"""The release engine: one answer a tier, computed once; the only writer of draws and sales."""
