"""The three protocols that every table of the paper is run under."""
