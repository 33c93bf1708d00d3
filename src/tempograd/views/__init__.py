"""What is shown, as plain numbers: computed here once, drawn, packed and printed elsewhere."""
