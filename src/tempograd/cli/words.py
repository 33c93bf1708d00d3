"""What the library says in Python's words, in those of the command line."""

WORDS = {
    "output='raw'": "--output raw",
    "output='probability'": "--output probability",
    "missing='mask'": "--missing mask",
    "target= ": "--target ",
    "pass draws=": "pass --set draws=",
    "pass trust=True": "pass --trust",
    "pass force=True": "pass --force",
}


def as_typed(message: str) -> str:
    """Return a sentence with options instead of arguments.

    Examples
    --------
    >>> as_typed("Pass output='raw', and target= for one of them.")
    'Pass --output raw, and --target for one of them.'
    """
    for argument, option in WORDS.items():
        message = message.replace(argument, option)
    return message
