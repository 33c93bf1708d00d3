"""Methods that ask how a prediction changes from step to step: FIT and WinIT."""
