"""TimeX and TimeX++: one network that learns which cells of a series to keep."""
