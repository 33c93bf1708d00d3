"""Gradients for people in a hurry."""
