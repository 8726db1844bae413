"""What an audit needs and cannot reach for a moment: it waits and asks again, for an outage is nobody's breach."""

import time
from collections.abc import Callable
from typing import TypeVar

from app.engines.errors import EngineError
from app.errors import StoreUnavailableError

__all__ = ["asked_again"]

_Made = TypeVar("_Made")
_PAUSES = (1.0, 10.0, 60.0)


def asked_again(work: Callable[[], _Made]) -> _Made:
    """Do work; where a store or a source server gives no answer, do it anew after a second, ten, and a minute.

    What stays away for longer is withheld: the last error is raised. A part that is not there at all (a snapshot whose
    file is gone, a store that was rolled back) is not waited for.
    """
    for pause in _PAUSES:
        try:
            return work()
        except EngineError:
            pass
        except StoreUnavailableError as error:
            if type(error) is not StoreUnavailableError:
                raise
        time.sleep(pause)
    return work()
