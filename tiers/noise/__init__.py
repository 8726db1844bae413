"""Noise laws, one family a file, with the same verbs on each."""
