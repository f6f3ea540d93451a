"""Held locks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Generator, List, Optional

from . import _calls, _options
from ._errors import Lost, LossReason

if TYPE_CHECKING:
    from . import _native
    from ._options import Duration


class LossEvent:
    """The loss of a lock: wait for it in a thread, or await it in asyncio."""

    __slots__ = ("_native",)

    def __init__(self, native: _native.Hold) -> None:
        self._native = native

    def is_set(self) -> bool:
        """Whether the lock is no longer held at this instant."""
        return not self._native.is_valid()

    def wait(self, timeout: Optional[Duration] = None) -> Optional[Lost]:
        """Waits until the lock is no longer held; None once `timeout` is over."""
        time = None if timeout is None else _options.seconds("timeout", timeout)
        lost: Optional[Lost] = _calls.wait(self._native.lost(time))
        return lost

    def __await__(self) -> Generator[Any, None, Lost]:
        """Waits until the lock is no longer held."""
        return _calls.finish(self._native.lost()).__await__()


class AtRisk:
    """The early warning: renewals fail, or the lock is lost. It may recover."""

    __slots__ = ("_native",)

    def __init__(self, native: _native.Hold) -> None:
        self._native = native

    def is_set(self) -> bool:
        """Whether renewals fail now, while the lock is held."""
        return self._native.is_at_risk()

    def wait(self, timeout: Optional[Duration] = None) -> bool:
        """Waits for the warning; False once `timeout` is over."""
        time = None if timeout is None else _options.seconds("timeout", timeout)
        came: bool = _calls.wait(self._native.at_risk(time))
        return came

    def __await__(self) -> Generator[Any, None, bool]:
        """Waits for the warning."""
        return _calls.finish(self._native.at_risk()).__await__()


class AnyHold:
    """A held lock of any kind. It is renewed until it is unlocked, lost or collected.

    Renewal needs neither the GIL nor a loop: a program that computes keeps its locks.
    """

    __slots__ = ("_native", "__weakref__")

    def __init__(self, native: _native.Hold) -> None:
        self._native = native

    @property
    def name(self) -> str:
        """The lock's name, with the locker's prefix. Of several names, the first one in order."""
        return self._native.name()

    @property
    def names(self) -> List[str]:
        """All names that are held, in order."""
        return self._native.names()

    @property
    def token(self) -> int:
        """The fencing token: send it with every write. 0 without `fencing`."""
        return self._native.token()

    @property
    def nonce(self) -> str:
        """The id by which the servers know this hold: see `Holder.has`."""
        return self._native.nonce()

    def check(self) -> None:
        """Raises `Lost` if the lock is not held at this instant. No I/O."""
        self._native.check()

    def is_valid(self) -> bool:
        """Whether the lock is held at this instant. No I/O."""
        return self._native.is_valid()

    def valid_for(self) -> float:
        """For how many seconds the lock is surely held, even if no server answers again."""
        return self._native.valid_for()

    @property
    def lost(self) -> LossEvent:
        """The loss: `hold.lost.wait(timeout)`, or `await hold.lost`."""
        return LossEvent(self._native)

    @property
    def at_risk(self) -> AtRisk:
        """The early warning: `hold.at_risk.wait(timeout)`, or `await hold.at_risk`."""
        return AtRisk(self._native)

    def on_lost(self, callback: Callable[[Lost], object]) -> None:
        """Calls `callback` once the lock is lost, on a thread of its own; not after an unlock.

        In asyncio, use `loop.call_soon_threadsafe` in it, or await `lost`.
        """
        if not callable(callback):
            raise TypeError(f"callback must be callable, not {type(callback).__name__}")
        self._native.on_lost(callback)

    def loss_ahead(self) -> LossReason:
        """What ends the lock if it is not renewed. Of a lost lock, what ended it."""
        return LossReason(self._native.loss_ahead())

    @property
    def hold_count(self) -> int:
        """How many holds of one owner share this lock; 0 once it is given back."""
        return self._native.hold_count()

    @property
    def is_ended(self) -> bool:
        """Whether it was given back by `unlock`, `into_ticket` or `downgrade`."""
        return self._native.is_ended()

    def renew(self) -> None:
        """Renews the lease now, and waits for the servers. The watchdog renews by itself."""
        _calls.wait(self._native.renew())

    async def arenew(self) -> None:
        """As `renew`, in asyncio."""
        await _calls.finish(self._native.renew())

    def unlock(self) -> None:
        """Gives the lock back, and waits for the servers. Raises `Lost` if it was gone."""
        try:
            _calls.wait(self._native.unlock())
        except BaseException:
            # An interrupted call may not have begun.
            self._native.abandon()
            raise

    async def aunlock(self) -> None:
        """As `unlock`, in asyncio. A cancellation gives the lock back all the same."""
        try:
            await _calls.finish(self._native.unlock())
        except BaseException:
            self._native.abandon()
            raise

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._native!r}>"


class Hold(AnyHold):
    """A held lock of one name, or of several."""

    __slots__ = ()

    def into_ticket(self) -> str:
        """Stops renewing, and leaves the lock held for another process: see `Locker.resume`."""
        return self._native.into_ticket()


class ReadHold(AnyHold):
    """A read-write lock that is held for reading."""

    __slots__ = ()


class WriteHold(AnyHold):
    """A read-write lock that is held for writing."""

    __slots__ = ()

    def downgrade(self) -> ReadHold:
        """Goes on as a reader: no writer comes in between. This hold ends."""
        return ReadHold(_calls.wait(self._native.downgrade()))

    async def adowngrade(self) -> ReadHold:
        """As `downgrade`, in asyncio."""
        return ReadHold(await _calls.finish(self._native.downgrade()))


class PermitHold(AnyHold):
    """A held permit of a semaphore."""

    __slots__ = ()

    @property
    def slot(self) -> int:
        """The number of the permit: 0 to the number of permits less one."""
        slot = self._native.slot()
        assert slot is not None
        return slot
