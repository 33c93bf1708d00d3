"""Methods that measure how a prediction changes from step to step: FIT and WinIT."""
