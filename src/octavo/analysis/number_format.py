"""How the numbers of a verdict are rounded: an interval that ends at × 26,599,810 shows only that the ratio is
unknown."""

from collections.abc import Callable

_FAR = 10_000.0
_LOUD = 10.0


def ratio(value: float) -> str:
    """A ratio in a sentence: thousandths near 1, else three significant digits.

    >>> ratio(1.1), ratio(0.9994), ratio(20.337), ratio(151.175), ratio(2945.2), ratio(0.01393), ratio(0.000657)
    ('1.100', '0.999', '20.3', '151', '2,945', '0.0139', '0.000657')
    """
    if 0.1 <= value < 10:
        return f"{value:.3f}"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.3g}"


def end_of_interval(value: float, plain: Callable[[float], str]) -> str:
    """An end of a ratio's interval in the words of `plain`, and no further than ten thousandfold.

    >>> end_of_interval(1.234, "{:.2f}".format), end_of_interval(2.66e7, str), end_of_interval(6.6e-9, str)
    ('1.23', '>10,000', '<0.0001')
    """
    if value > _FAR:
        return f">{_FAR:,.0f}"
    if value < 1 / _FAR:
        return f"<{1 / _FAR:g}"
    return plain(value)


def noise_floor(fraction: float, plain: Callable[[float], str]) -> str:
    """A noise floor in the words of `plain`, and no further than tenfold.

    >>> noise_floor(0.276, "{:.1%}".format), noise_floor(3156.3, "{:.1%}".format)
    ('27.6%', 'over 1,000 %')
    """
    return f"over {_LOUD * 100:,.0f} %" if fraction > _LOUD else plain(fraction)
