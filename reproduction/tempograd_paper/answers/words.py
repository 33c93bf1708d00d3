"""Numbers, names and p-values as the page of answers writes them."""

from collections.abc import Sequence

from tempograd_paper.statistics import sign_test, signed_rank_test

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
BASELINES = {"zero": "zeros", "average": "averages", "background": "values of other series"}


def number(count: int) -> str:
    """Write a small number as a word.

    Examples
    --------
    >>> number(7), number(105)
    ('seven', '105')
    """
    return NUMBERS[count] if count < len(NUMBERS) else str(count)


def listed(names: Sequence[str]) -> str:
    """Write a list with "and" before its last part.

    Examples
    --------
    >>> listed(["FO"]), listed(["FO", "IG", "LIME"]), listed([])
    ('FO', 'FO, IG and LIME', '')
    """
    *most, last = names or [""]
    return f"{', '.join(most)} and {last}" if most else last


def percent(gap: float, whole: float) -> str:
    """Write a difference in per cent of something, with a true minus.

    Examples
    --------
    >>> percent(-0.02, 4.0)
    '−0.5'
    """
    return f"{100 * gap / abs(whole):+.1f}".replace("-", "−")


def p_value(value: float) -> str:
    """Write a p-value.

    Examples
    --------
    >>> p_value(0.0156), p_value(1e-6)
    ('p = 0.016', 'p < 0.001')
    """
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def ahead(gaps: Sequence[float]) -> str:
    """Say on how many data sets a difference is positive, and how likely that were by chance.

    Examples
    --------
    >>> ahead([0.1, 0.2, 0.3, -0.4])
    'three of four data sets (sign test p = 0.625, Wilcoxon p = 0.875)'
    """
    tests = f"sign test {p_value(sign_test(gaps))}, Wilcoxon {p_value(signed_rank_test(gaps))}"
    return f"{number_of(gaps)} data sets ({tests})"


def number_of(gaps: Sequence[float]) -> str:
    """Say how many differences are positive.

    Examples
    --------
    >>> number_of([0.1, -0.2]), number_of([-0.1])
    ('one of two', 'none of one')
    """
    positive = sum(gap > 0 for gap in gaps)
    return f"{number(positive) if positive else 'none'} of {number(len(gaps))}"


def folds(found: Sequence[int]) -> str:
    """Name some folds.

    Examples
    --------
    >>> folds([4]), folds([1, 2, 3, 4]), folds([0, 2, 3])
    ('fold 4', 'folds 1 to 4', 'folds 0, 2 and 3')
    """
    if len(found) == 1:
        return f"fold {found[0]}"
    if len(found) > 2 and list(found) == list(range(found[0], found[-1] + 1)):
        return f"folds {found[0]} to {found[-1]}"
    return f"folds {listed([str(fold) for fold in found])}"
