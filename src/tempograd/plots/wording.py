"""Words and numbers as they stand in pictures."""

from collections.abc import Sequence

LONGEST = 28  # letters of a name


def name(label: str, longest: int = LONGEST) -> str:
    r"""Put a name on one line and cut it where it is too long.

    Examples
    --------
    >>> name("heart\nrate"), name("a" * 40, 6)
    ('heart rate', 'aaaaa…')
    """
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in label).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def method(label: str) -> str:
    """Write the name of a method without underscores."""
    return name(label.replace("_", " "))


def class_name(index: int, classes: Sequence[str] | None) -> str:
    """Call a class by its name, or by its number where it has none.

    Examples
    --------
    >>> class_name(1, ("survived", "died")), class_name(1, None)
    ('“died”', 'class 1')
    """
    if classes is None or index >= len(classes):
        return f"class {index}"
    return f"“{name(str(classes[index]))}”"
