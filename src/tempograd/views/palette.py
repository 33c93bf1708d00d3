"""Every colour by what it means, declared once: pictures take them from here, the page as variables of its style.

Orange pushes up, blue pushes down, purple has no direction. Hue is never the only sign: bars point up or down, and
a heat map has a dash in every cell that pushes down, so that a grey print tells as much. Beside the colours
stand the words of their keys, which are the same in pictures and in the page.
"""

WORDS = {  # what stands beside a colour, wherever it is used
    "up": "pushes up",
    "down": "pushes down",
    "size": "importance, without direction",
    "pale": "pale: 95 % interval includes 0",
    "missing": "not observed",
    "truth": "known to decide the label",
    "score": "attribution",
    "spread": "±: one standard error at most",
}
COLOURS = {  # by the names of the page, on light and on dark ground; pictures are light
    "paper": ("#ffffff", "#12171c"),
    "panel": ("#f4f6f8", "#1c232b"),
    "ink": ("#1f2a33", "#e8edf2"),
    "muted": ("#5b6875", "#a5b2bf"),
    "frame": ("#c3cad1", "#55626f"),
    "faint": ("#e3e7ea", "#2b343d"),
    "border": ("#7f8c99", "#7d8b98"),
    "missing": ("#c3cad1", "#55626f"),
    "truth": ("#1f2a33", "#e8edf2"),
    "removed": ("#a1077a", "#f57fd0"),
    "up": ("#b03a05", "#ff9552"),
    "up-half": ("#f9b27c", "#9c4c1d"),
    "up-pale": ("#f3c7a8", "#6e3a1c"),
    "down": ("#0c5291", "#62b1f2"),
    "down-half": ("#84b8df", "#22598a"),
    "down-pale": ("#b4d2ea", "#264a68"),
    "size": ("#542788", "#bd97ea"),
    "size-half": ("#b79fd0", "#62408a"),
    "size-pale": ("#d6c8e4", "#47345f"),
    "low": ("#e6efe6", "#22332e"),
    "middle": ("#7fae96", "#4d8a74"),
    "high": ("#14463a", "#c6ecd9"),
    "method-0": ("#1f2a33", "#e8edf2"),
    "method-1": ("#d55e00", "#ff9a4d"),
    "method-2": ("#0072b2", "#5fb4f5"),
    "method-3": ("#009e73", "#35cf9f"),
    "method-4": ("#cc79a7", "#f0a6d0"),
    "method-5": ("#8a6d00", "#dcbd4e"),
    "method-6": ("#56b4e9", "#93d4fa"),
    "method-7": ("#5b6875", "#a5b2bf"),
}
LIGHT, DARK = ({name: pair[ground] for name, pair in COLOURS.items()} for ground in (0, 1))

PAPER, INK, MUTED, FRAME, FAINT = (LIGHT[name] for name in ("paper", "ink", "muted", "frame", "faint"))
UP, DOWN, SIZE = (LIGHT[name] for name in ("up", "down", "size"))
PALE = {LIGHT[name]: LIGHT[f"{name}-pale"] for name in ("up", "down", "size")}  # where the sign is not certain
STOPS = {name: (PAPER, LIGHT[f"{name}-half"], LIGHT[name]) for name in ("up", "down", "size")}  # from 0 on
INPUT = tuple(LIGHT[name] for name in ("low", "middle", "high"))  # values: a hue that no attribution has
MISSING = LIGHT["missing"]  # not observed: cells of the page, hatching in pictures
TRUTH = LIGHT["truth"]  # cells that are known to decide the label
REMOVED = LIGHT["removed"]  # cells that gave way to the baseline
METHODS = tuple(colour for name, colour in LIGHT.items() if name.startswith("method-"))
