"""Requests for locks: nothing happens before they are acquired, awaited or entered."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Awaitable, Callable, Dict, Generator, Generic, List, Optional, Type
from typing import TypeVar, Union

from . import _calls, _native
from ._errors import ConfigError, Error, Lost, Unreachable
from ._hold import AnyHold

H = TypeVar("H", bound=AnyHold)
T = TypeVar("T")


class _Request(Generic[H]):
    """What requests that wait and requests that do not have in common."""

    __slots__ = (
        "_cancel_on_loss", "_hold", "_kind", "_locker", "_loss", "_names", "_of", "_options",
        "_permits",
    )  # fmt: skip
    _waits = True

    def __init__(
        self,
        locker: _native.Locker,
        kind: str,
        names: Union[str, List[str]],
        of: Type[H],
        options: Dict[str, Any],
        permits: int = 0,
    ) -> None:
        """`options` are as `_options.of_request` reads them."""
        self._locker = locker
        self._kind = kind
        self._names = names
        self._permits = permits
        self._of = of
        self._cancel_on_loss = options.pop("cancel_on_loss", False) if options else False
        self._options = options or None
        self._hold: Union[H, None, _Free] = _FREE
        self._loss: Optional[_CancelOnLoss] = None

    def _call(self) -> _native.Op:
        return self._locker.acquire(
            self._kind, self._names, self._permits, self._waits, self._options
        )

    def _acquire(self) -> Optional[H]:
        held = _calls.wait(self._call())
        return None if held is None else self._of(held)

    async def _aacquire(self) -> Optional[H]:
        held = await _calls.finish(self._call())
        return None if held is None else self._of(held)

    def _enter(self) -> Optional[H]:
        self._check_free()
        if self._cancel_on_loss:
            raise ConfigError("cancel_on_loss applies to `async with` and `arun` only")
        self._hold = hold = self._acquire()
        return hold

    async def _aenter(self) -> Optional[H]:
        self._check_free()
        self._hold = hold = await self._aacquire()
        if hold is not None and self._cancel_on_loss:
            self._loss = _CancelOnLoss(hold)
        return hold

    def _check_free(self) -> None:
        if self._hold is not _FREE:
            raise RuntimeError("this request is in a `with` block already: make one for each block")

    def _leave(self) -> Optional[H]:
        hold, self._hold = self._hold, _FREE
        return None if isinstance(hold, _Free) else hold

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        hold = self._leave()
        if hold is None or hold.is_ended:
            return
        try:
            hold.unlock()
        except Error as end:
            if error is None and not isinstance(end, Unreachable):
                raise

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        hold, loss = self._leave(), self._loss
        self._loss = None
        if loss is not None:
            loss.end()
        try:
            if hold is not None and not hold.is_ended:
                await hold.aunlock()
            elif error is None and loss is not None and loss.has_cancelled():
                # The cancellation came with the end of the block: it is taken here.
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            if loss is None or not loss.is_ours():
                raise
            raise loss.lost() from None
        except Error as end:
            lost = loss is not None and loss.has_cancelled()
            if error is None and not lost and not isinstance(end, Unreachable):
                raise
        if loss is not None and loss.has_cancelled():
            cancelled = error is None or isinstance(error, asyncio.CancelledError)
            if loss.is_ours() and cancelled:
                raise loss.lost() from error


class _Free:
    """Stands for a request that is in no block."""


_FREE = _Free()


class _CancelOnLoss:
    """Cancels the task of a block once the lock is lost, as `asyncio.timeout` does after a time."""

    def __init__(self, hold: AnyHold) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("cancel_on_loss needs a task of asyncio")
        self._task = task
        loop = asyncio.get_running_loop()
        self._bridge = _calls.bridge_of(loop)
        self._future: asyncio.Future[Optional[Lost]] = loop.create_future()
        self._lost: Optional[Lost] = None
        self._ended = False
        # Before Python 3.11 nobody counts cancellations.
        self._cancelling = task.cancelling() if hasattr(task, "cancelling") else 0
        self._future.add_done_callback(self._came)
        self._number = self._bridge.start(hold._native.lost(), self._future)

    def _came(self, future: asyncio.Future[Optional[Lost]]) -> None:
        if not self._ended and not future.cancelled():
            self._lost = future.result()
            self._task.cancel()

    def end(self) -> None:
        """The block has ended: from now on nothing is cancelled."""
        self._ended = True
        self._bridge.cancel(self._number, self._future)

    def has_cancelled(self) -> bool:
        """Whether the task was cancelled because of the loss."""
        return self._lost is not None

    def is_ours(self) -> bool:
        """Whether the loss was the only reason to cancel. It takes its cancellation back."""
        if self._lost is None:
            return False
        if not hasattr(self._task, "uncancel"):
            return True
        left: int = self._task.uncancel()
        return left <= self._cancelling

    def lost(self) -> Lost:
        """The loss that cancelled the task."""
        assert self._lost is not None
        return self._lost


class LockRequest(_Request[H]):
    """A request that waits while somebody else holds the lock.

    `with` and `async with` hold the lock for a block. `acquire()` and `await` give the hold, which
    the caller unlocks.
    """

    __slots__ = ()

    def acquire(self) -> H:
        """Waits for the lock. The GIL is free meanwhile, and Ctrl-C ends the wait."""
        hold = self._acquire()
        assert hold is not None
        return hold

    def __await__(self) -> Generator[Any, None, H]:
        """Waits for the lock, in asyncio. A cancellation leaves nothing behind."""
        return self._granted().__await__()

    async def _granted(self) -> H:
        hold = await self._aacquire()
        assert hold is not None
        return hold

    def __enter__(self) -> H:
        hold = self._enter()
        assert hold is not None
        return hold

    async def __aenter__(self) -> H:
        hold = await self._aenter()
        assert hold is not None
        return hold

    def run(self, work: Callable[[H], T]) -> T:
        """Waits for the lock, does `work`, and gives the lock back. `work` must call `check`."""
        with self as hold:
            return work(hold)

    async def arun(self, work: Callable[[H], Awaitable[T]]) -> T:
        """As `run`, in asyncio: the loss of the lock cancels `work` and raises `Lost`."""
        self._cancel_on_loss = True
        async with self as hold:
            return await work(hold)
        raise AssertionError("a block that ends has returned")


class TryLockRequest(_Request[H]):
    """A request that takes the lock if it is free. The hold is None if somebody else has it."""

    __slots__ = ()
    _waits = False

    def acquire(self) -> Optional[H]:
        """Takes the lock if it is free."""
        return self._acquire()

    def __await__(self) -> Generator[Any, None, Optional[H]]:
        """Takes the lock if it is free, in asyncio."""
        return self._aacquire().__await__()

    def __enter__(self) -> Optional[H]:
        return self._enter()

    async def __aenter__(self) -> Optional[H]:
        return await self._aenter()
