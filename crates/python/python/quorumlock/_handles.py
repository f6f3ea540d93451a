"""Handles: a locker and a name, to keep and to pass around. Making one does no I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Awaitable, Callable, List, Optional, Tuple, TypeVar, Union

from . import _calls, _native, _options
from ._errors import Error, Lost
from ._hold import Hold, PermitHold, ReadHold, WriteHold
from ._request import LockRequest, TryLockRequest
from ._streams import Items
from ._values import Holder, Leadership

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import LockOptions, PermitOptions, TryLockOptions, TryPermitOptions

T = TypeVar("T")

_MOST_SLOTS = 2**16 - 1


class _Lock:
    """What the handles of locks and of read-write locks have in common."""

    def __init__(self, native: _native.Locker, kind: str, names: Union[str, List[str]]) -> None:
        self._native = native
        self._kind = kind
        self._names = names

    def holder(self) -> Optional[Holder]:
        """Who holds the lock; None if nobody does. All readers are one holder, `readers`."""
        holder: Optional[Holder] = _calls.wait(self._native.holder(self._kind, self._names))
        return holder

    async def aholder(self) -> Optional[Holder]:
        """As `holder`, in asyncio."""
        holder: Optional[Holder] = await _calls.finish(
            self._native.holder(self._kind, self._names)
        )
        return holder

    def force_unlock(self) -> bool:
        """Frees the lock, whichever client holds it. True if it was held."""
        freed: bool = _calls.wait(self._native.force_unlock(self._kind, self._names))
        return freed

    async def aforce_unlock(self) -> bool:
        """As `force_unlock`, in asyncio."""
        freed: bool = await _calls.finish(self._native.force_unlock(self._kind, self._names))
        return freed


class Mutex(_Lock):
    """The lock of one name, or of several: from `Locker.mutex`."""

    def __init__(self, native: _native.Locker, names: Union[str, List[str]]) -> None:
        super().__init__(native, "lock", names)

    @property
    def name(self) -> str:
        """The lock's name, with the locker's prefix. Of several, the first one that was given."""
        return self.names[0]

    @property
    def names(self) -> List[str]:
        """All names of the lock, with the locker's prefix."""
        return self._native.full_names(self._names)

    def lock(self, **options: Unpack[LockOptions]) -> LockRequest[Hold]:
        """Waits for the lock: see `Locker.lock`."""
        read = _options.of_request(options, _options.LOCK)
        return LockRequest(self._native, "lock", self._names, Hold, read)

    def try_lock(self, **options: Unpack[TryLockOptions]) -> TryLockRequest[Hold]:
        """Takes the lock if it is free: see `Locker.try_lock`."""
        read = _options.of_request(options, _options.TRY_LOCK)
        return TryLockRequest(self._native, "lock", self._names, Hold, read)

    def is_locked(self) -> bool:
        """Whether any client holds the lock, or one of its names."""
        locked: bool = _calls.wait(self._native.is_locked(self._names))
        return locked

    async def ais_locked(self) -> bool:
        """As `is_locked`, in asyncio."""
        locked: bool = await _calls.finish(self._native.is_locked(self._names))
        return locked

    def is_held_by(self, owner: _native.Owner) -> bool:
        """Whether `owner` holds the lock."""
        held: bool = _calls.wait(self._native.is_held_by(self._names, owner))
        return held

    async def ais_held_by(self, owner: _native.Owner) -> bool:
        """As `is_held_by`, in asyncio."""
        held: bool = await _calls.finish(self._native.is_held_by(self._names, owner))
        return held

    def __repr__(self) -> str:
        return f"<Mutex {self._names!r}>"


class RwLock(_Lock):
    """A read-write lock: one writer, or any number of readers. From `Locker.rw_lock`."""

    def __init__(self, native: _native.Locker, name: str) -> None:
        super().__init__(native, "rw", name)
        self._name = name

    @property
    def name(self) -> str:
        """The lock's name, with the locker's prefix."""
        return self._native.full_names(self._name)[0]

    def read(self, **options: Unpack[LockOptions]) -> LockRequest[ReadHold]:
        """Waits until no writer holds the lock, and takes it for reading."""
        read = _options.of_request(options, _options.LOCK)
        return LockRequest(self._native, "read", self._name, ReadHold, read)

    def write(self, **options: Unpack[LockOptions]) -> LockRequest[WriteHold]:
        """Waits until nobody holds the lock, and takes it for writing."""
        read = _options.of_request(options, _options.LOCK)
        return LockRequest(self._native, "write", self._name, WriteHold, read)

    def try_read(self, **options: Unpack[TryLockOptions]) -> TryLockRequest[ReadHold]:
        """Takes the lock for reading; None if a writer holds it, or waits for it."""
        read = _options.of_request(options, _options.TRY_LOCK)
        return TryLockRequest(self._native, "read", self._name, ReadHold, read)

    def try_write(self, **options: Unpack[TryLockOptions]) -> TryLockRequest[WriteHold]:
        """Takes the lock for writing if nobody holds it; else None."""
        read = _options.of_request(options, _options.TRY_LOCK)
        return TryLockRequest(self._native, "write", self._name, WriteHold, read)

    def __repr__(self) -> str:
        return f"<RwLock {self._name!r}>"


class Semaphore:
    """Permits, of which a number is held at a time: from `Locker.semaphore`."""

    def __init__(self, native: _native.Locker, name: str, permits: int) -> None:
        self._native = native
        self._name = name
        self._permits = permits

    @property
    def name(self) -> str:
        """The name of the permits, with the locker's prefix."""
        return self._native.full_names(self._name)[0]

    @property
    def permits(self) -> int:
        """How many permits there are."""
        return self._permits

    def acquire(self, **options: Unpack[PermitOptions]) -> LockRequest[PermitHold]:
        """Waits for a permit. It is a request: `with`, `async with`, `.acquire()` or `await`."""
        read = _options.of_request(options, _options.PERMIT)
        return LockRequest(self._native, "permit", self._name, PermitHold, read, self._permits)

    def try_acquire(self, **options: Unpack[TryPermitOptions]) -> TryLockRequest[PermitHold]:
        """Takes a permit if one is free; else None."""
        read = _options.of_request(options, _options.TRY_PERMIT)
        return TryLockRequest(self._native, "permit", self._name, PermitHold, read, self._permits)

    def holders(self) -> Tuple[Optional[Holder], ...]:
        """The holder of each slot."""
        holders: Tuple[Optional[Holder], ...] = _calls.wait(
            self._native.holders(self._name, self._permits)
        )
        return holders

    async def aholders(self) -> Tuple[Optional[Holder], ...]:
        """As `holders`, in asyncio."""
        holders: Tuple[Optional[Holder], ...] = await _calls.finish(
            self._native.holders(self._name, self._permits)
        )
        return holders

    def force_release(self, slot: int) -> bool:
        """Frees one slot, whichever client holds it. True if it was held."""
        freed: bool = _calls.wait(self._release(slot))
        return freed

    async def aforce_release(self, slot: int) -> bool:
        """As `force_release`, in asyncio."""
        freed: bool = await _calls.finish(self._release(slot))
        return freed

    def _release(self, slot: int) -> _native.Op:
        slot = _options.number("slot", slot, 0, _MOST_SLOTS)
        return self._native.force_release(self._name, self._permits, slot)

    def __repr__(self) -> str:
        return f"<Semaphore {self._name!r} of {self._permits}>"


class Election:
    """Elects one leader among the processes that campaign under one name: from `Locker.election`.

    To lead is to hold the lock of that name. The token is the term, which grows with each leader.
    """

    def __init__(self, native: _native.Locker, name: str) -> None:
        self._native = native
        self._name = name

    @property
    def name(self) -> str:
        """The name, with the locker's prefix."""
        return self._native.full_names(self._name)[0]

    def campaign(self, **options: Unpack[PermitOptions]) -> LockRequest[Hold]:
        """Waits until this process leads. The hold's token is the term; `unlock` resigns."""
        read = _options.of_request(options, _options.PERMIT)
        return LockRequest(self._native, "lock", self._name, Hold, read)

    def run(self, work: Callable[[Hold], T]) -> T:
        """Campaigns, and does `work` while this process leads. `work` must call `check`.

        If it raises `Lost` because the lead is lost, this process campaigns again, for ever. When
        `work` ends by itself, it resigns.
        """
        while True:
            term = self._lead().acquire()
            try:
                return work(term)
            except Lost:
                if term.is_valid():
                    raise
            finally:
                self._resign(term)

    async def arun(self, work: Callable[[Hold], Awaitable[T]]) -> T:
        """As `run`, in asyncio: the loss of the lead cancels `work`."""
        while True:
            lead = self._lead(cancel_on_loss=True)
            term = await lead.__aenter__()
            try:
                done = await work(term)
            except BaseException as error:
                try:
                    await lead.__aexit__(type(error), error, error.__traceback__)
                except Lost:
                    continue
                if isinstance(error, Lost) and not term.is_valid():
                    continue
                raise
            try:
                await lead.__aexit__(None, None, None)
            except Error:
                # The work is done, whatever becomes of the lock.
                pass
            return done

    def leader(self) -> Optional[Holder]:
        """Who leads now; None if nobody does."""
        leader: Optional[Holder] = _calls.wait(self._native.holder("lock", self._name))
        return leader

    async def aleader(self) -> Optional[Holder]:
        """As `leader`, in asyncio."""
        leader: Optional[Holder] = await _calls.finish(self._native.holder("lock", self._name))
        return leader

    def observe(self) -> Items[Leadership]:
        """Who leads now, and then each change: in `for` or `async for`."""
        return Items(self._native.observe(self._name))

    def _lead(self, cancel_on_loss: bool = False) -> LockRequest[Hold]:
        """A campaign that goes on after what waiting mends."""
        options = {"cancel_on_loss": cancel_on_loss}
        return LockRequest(self._native, "lead", self._name, Hold, options)

    @staticmethod
    def _resign(term: Hold) -> None:
        try:
            if not term.is_ended:
                term.unlock()
        except Error:
            # The work is done, whatever becomes of the lock.
            pass

    def __repr__(self) -> str:
        return f"<Election {self._name!r}>"
