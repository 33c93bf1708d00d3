"""The six settings of the paper: time, channels, segments, min_length, max_length."""

PAPER = {
    "mimic3": (48, 32, 50, 10, 48),
    "pam": (600, 17, 10, 10, 600),
    "boiler": (36, 20, 50, 1, 36),
    "epilepsy": (178, 1, 10, 10, 10),
    "wafer": (152, 1, 5, 10, 152),
    "freezer": (301, 1, 5, 10, 100),
}
