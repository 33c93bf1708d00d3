"""TIMING: paths that leave random segments of the series untouched."""
