"""Exact samplers over keyed words: a float never decides, a ball only when it is certain."""
