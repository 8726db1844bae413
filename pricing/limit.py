"""A time limit and a progress report as values: searches ask the caller's clock, never their own."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

__all__ = ["UNLIMITED", "Limit", "limit_of"]


@dataclass(frozen=True, slots=True)
class Limit:
    """How long a search may still run, and whom it tells how far it is.

    Args:       seconds_left: called between steps; at or below 0 the search stops. progress: called with the stage's
                name, steps done and steps in all.
    Example:
                >>> steps = []
                >>> Limit(progress=lambda *step: steps.append(step)).progress("menu", 1, 2)
                >>> steps
                [('menu', 1, 2)]
    """

    seconds_left: Callable[[], float] = lambda: inf
    progress: Callable[[str, int, int], None] = lambda _stage, _done, _of: None

    def is_over(self) -> bool:
        """Tell whether the time is used up; a clock that gives NaN counts as over."""
        return not self.seconds_left() > 0

    def options(self) -> dict[str, float]:
        """Return what a solver is told of the time left: nothing where there is no limit.

        Example:
                    >>> Limit().options(), Limit(seconds_left=lambda: -1.0).options()
                    ({}, {'time_limit': 0.0})
        """
        seconds = self.seconds_left()
        return {} if seconds == inf else {"time_limit": max(0.0, seconds)}  # NaN is 0


UNLIMITED = Limit()


def limit_of(
    seconds: float, clock: Callable[[], float], progress: Callable[[str, int, int], None] = UNLIMITED.progress
) -> Limit:
    """Return the limit that ends `seconds` from now on the caller's monotonic `clock`.

    Example:
                >>> ticks = iter([10.0, 11.0, 12.5])
                >>> limit = limit_of(2, lambda: next(ticks))
                >>> limit.is_over(), limit.is_over()
                (False, True)
    """
    end = clock() + seconds
    return Limit(lambda: end - clock(), progress)
