"""Means of gradients over paths, and how sure they are: schedules, segments, estimators, the gradient check."""
