"""Methods that learn a mask for each series: Dynamask, extremal masks and ContraLSP."""
