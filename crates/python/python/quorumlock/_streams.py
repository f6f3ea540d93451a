"""What comes one by one, in `for` and in `async for`."""

from __future__ import annotations

from typing import Generic, TypeVar

from . import _calls
from ._native import Stream

T = TypeVar("T")


class Items(Generic[T]):
    """Items that the servers are asked for one by one. Nobody is asked before the first one."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __iter__(self) -> Items[T]:
        return self

    def __next__(self) -> T:
        item: T | None = _calls.wait(self._stream.next())
        if item is None:
            raise StopIteration
        return item

    def __aiter__(self) -> Items[T]:
        return self

    async def __anext__(self) -> T:
        item: T | None = await _calls.finish(self._stream.next())
        if item is None:
            raise StopAsyncIteration
        return item
