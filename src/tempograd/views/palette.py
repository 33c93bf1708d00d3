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
PAPER = "#ffffff"

INK, MUTED, FRAME, FAINT = "#1f2a33", "#5b6875", "#c3cad1", "#e3e7ea"
UP, DOWN, SIZE = "#b03a05", "#0c5291", "#542788"
PALE = {UP: "#f3c7a8", DOWN: "#b4d2ea", SIZE: "#d6c8e4"}  # where the sign is not certain
STOPS = {  # from 0 to the full colour
    "up": ("#ffffff", "#f9b27c", UP),
    "down": ("#ffffff", "#84b8df", DOWN),
    "size": ("#ffffff", "#b79fd0", SIZE),
}
INPUT = ("#e6efe6", "#7fae96", "#14463a")  # values, from low to high: a hue that no attribution has
MISSING = FRAME  # not observed: cells of the page, hatching in pictures
TRUTH = INK  # cells that are known to decide the label
REMOVED = "#a1077a"  # cells that gave way to the baseline
METHODS = (INK, "#d55e00", "#0072b2", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9", MUTED)


DARK = {  # the same meanings on a dark screen, by the names of the page
    "paper": "#12171c",
    "panel": "#1c232b",
    "ink": "#e8edf2",
    "muted": "#a5b2bf",
    "frame": "#55626f",
    "faint": "#2b343d",
    "border": "#7d8b98",
    "missing": "#55626f",
    "truth": "#e8edf2",
    "removed": "#f57fd0",
    "up": "#ff9552",
    "up-half": "#9c4c1d",
    "up-pale": "#6e3a1c",
    "down": "#62b1f2",
    "down-half": "#22598a",
    "down-pale": "#264a68",
    "size": "#bd97ea",
    "size-half": "#62408a",
    "size-pale": "#47345f",
    "low": "#22332e",
    "middle": "#4d8a74",
    "high": "#c6ecd9",
    "method-0": "#e8edf2",
    "method-1": "#ff9a4d",
    "method-2": "#5fb4f5",
    "method-3": "#35cf9f",
    "method-4": "#f0a6d0",
    "method-5": "#dcbd4e",
    "method-6": "#93d4fa",
    "method-7": "#a5b2bf",
}


def variables() -> dict[str, str]:
    """Return the colours as the page names them, without the two dashes before each name."""
    named = {"paper": PAPER, "panel": "#f4f6f8", "ink": INK, "muted": MUTED, "frame": FRAME, "faint": FAINT}
    named |= {"border": "#7f8c99", "missing": MISSING, "truth": TRUTH, "removed": REMOVED}
    for kind, (_, half, full) in STOPS.items():
        named |= {kind: full, f"{kind}-half": half, f"{kind}-pale": PALE[full]}
    named |= dict(zip(("low", "middle", "high"), INPUT, strict=True))
    return named | {f"method-{place}": colour for place, colour in enumerate(METHODS)}
