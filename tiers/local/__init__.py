"""Local model: one report a person, privatised at the top tier; every lower tier is derived from reports alone.

Every mechanism here is one idea at two numbers. A report *keeps* the truth with probability s (its signal) and is else
drawn afresh from a law that knows nothing; it covers a share κ of the domain. Then e^ε = 1 + s/((1−s)κ), a tier below
keeps the report above with probability s′/s, and whoever holds several tiers holds a post-processing of the best one.
"""
