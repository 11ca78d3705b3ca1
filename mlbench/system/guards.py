"""Guards around code that is not ours, and may raise anything."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mlbench.errors import MlbenchError


@contextmanager
def undo_on_error(undo: Callable[[], object]) -> Iterator[None]:
    """Call ``undo`` where the block raises anything at all, Ctrl-C included, which goes on."""
    try:
        yield
    except BaseException:
        undo()
        raise


@contextmanager
def convert_errors(
    convert: Callable[[Exception], Exception], *, passes: type[Exception] = MlbenchError
) -> Iterator[None]:
    """Raise the error that ``convert`` returns for what the block raises, if it is none that passes as it is."""
    try:
        yield
    except passes:
        raise
    except Exception as error:  # what such code raises cannot be listed
        raise convert(error) from error


@contextmanager
def log_errors(logger: logging.Logger, message: str, *values: object) -> Iterator[None]:
    """Log what the block raises, and go on behind it."""
    try:
        yield
    except Exception:  # likewise
        logger.exception(message, *values)
