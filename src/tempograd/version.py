"""The version, written here and nowhere else."""

__version__ = "0.1.0"
ALGORITHM = 1  # results of runs with another number differ, and do not go into one folder
