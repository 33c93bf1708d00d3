"""Every colour by what it means, declared once: pictures take them from here, the page as variables of its style.

Orange pushes up, blue pushes down, purple has no direction. Hue is never the only sign: bars point up or down, and
a heat map has a dash in every cell that pushes down, so that a grey print tells as much.
"""

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


def variables() -> dict[str, str]:
    """Return the colours as the page names them, without the two dashes before each name."""
    named = {"ink": INK, "muted": MUTED, "frame": FRAME, "faint": FAINT}
    named |= {"missing": MISSING, "truth": TRUTH, "removed": REMOVED}
    for kind, (_, half, full) in STOPS.items():
        named |= {kind: full, f"{kind}-half": half, f"{kind}-pale": PALE[full]}
    named |= dict(zip(("low", "middle", "high"), INPUT, strict=True))
    return named | {f"method-{place}": colour for place, colour in enumerate(METHODS)}
