"""Methods that integrate gradients along paths from a baseline to the series."""
