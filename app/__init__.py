"""The market service: the only package that knows HTTP, SQL, Redis, files and time."""
