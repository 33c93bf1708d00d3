"""
One series
==========

Placeholder.
"""

print("hello")
