"""Server-rendered pages: finished values in, HTML out; no arithmetic in a template, no remote asset."""
