"""Objects that the workers of a process share, as their weights are large: modules, sessions, engines."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import RLock
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")


class SharedWhileUsed(Generic[T]):
    """One object a key, for as long as somebody uses it."""

    def __init__(self) -> None:
        self._found: WeakValueDictionary[Hashable, T] = WeakValueDictionary()
        self._building = RLock()

    def get(self, key: Hashable, build: Callable[[], T]) -> T:
        """Return the object that is in use under a key, else a new one.

        Args:
            key: all that the object depends on.
            build: makes an object that may be referred to weakly.
        """
        with self._building:
            found = self._found.get(key)
            if found is None:
                found = self._found[key] = build()
            return found
