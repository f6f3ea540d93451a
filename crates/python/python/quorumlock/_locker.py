"""A locker takes locks."""

from __future__ import annotations

import atexit
import os
import sys
import time
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Awaitable, Callable, Iterable, MutableSet, Optional, Tuple, Type
from typing import TypeVar, Union

from . import _calls, _native, _options
from ._errors import Error
from ._handles import Election, Mutex, RwLock, Semaphore
from ._hold import Hold
from ._native import Owner, Servers
from ._request import LockRequest, TryLockRequest
from ._streams import Items
from ._values import HeldLock, NodeStatus, Stats

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from ._options import LockerOptions, LockOptions, TryLockOptions

T = TypeVar("T")

Names = Union[str, Iterable[str]]


class Locker:
    """Takes locks, on one server or on a quorum. Making one does no I/O.

    Make one for each process, and use it in all threads and tasks. A locker that was made before a
    fork is refused in the child: make a new one there.
    """

    def __init__(
        self, servers: Optional[Servers] = None, **options: Unpack[LockerOptions]
    ) -> None:
        """Without servers: those of the environment, as `from_env`."""
        if servers is not None and not isinstance(servers, Servers):
            kind = type(servers).__name__
            raise TypeError(f"servers must be Servers, not {kind}: Locker.single takes a URL")
        self._native = _native.Locker(servers, _options.of_locker(options))
        _at_exit(self)

    @classmethod
    def single(cls, url: str, **options: Unpack[LockerOptions]) -> Self:
        """Locks on one server."""
        return cls(Servers.single(_options.text("url", url)), **options)

    @classmethod
    def quorum(cls, urls: Iterable[str], **options: Unpack[LockerOptions]) -> Self:
        """Locks on a quorum of independent servers."""
        return cls(Servers.quorum(_options.urls(urls)), **options)

    @classmethod
    def from_env(cls, **options: Unpack[LockerOptions]) -> Self:
        """Servers and options from the environment: `QUORUMLOCK_NODES` and others."""
        return cls(None, **options)

    def lock(self, names: Names, **options: Unpack[LockOptions]) -> LockRequest[Hold]:
        """Waits for the lock of a name, or of several names: all or none.

        Use it in `with` or `async with`, or end it with `.acquire()` or `await`. After `wait`
        seconds it raises `Busy`; without, it waits for ever. `hold_at_most` ends the hold,
        `hold_at_least` keeps it, and `owner` enters again. `cancel_on_loss` cancels the block of
        `async with`.
        """
        read = _options.of_request(options, _options.LOCK)
        return LockRequest(self._native, "lock", _options.names(names), Hold, read)

    def try_lock(self, names: Names, **options: Unpack[TryLockOptions]) -> TryLockRequest[Hold]:
        """Takes the lock of a name, or of several, if it is free: else the hold is None."""
        read = _options.of_request(options, _options.TRY_LOCK)
        return TryLockRequest(self._native, "lock", _options.names(names), Hold, read)

    def run(self, names: Names, work: Callable[[Hold], T]) -> T:
        """Waits for the lock, does `work`, and gives the lock back: `lock(names).run(work)`."""
        return self.lock(names).run(work)

    async def arun(self, names: Names, work: Callable[[Hold], Awaitable[T]]) -> T:
        """As `run`, in asyncio: the loss of the lock cancels `work` and raises `Lost`."""
        return await self.lock(names).arun(work)

    def mutex(self, names: Names) -> Mutex:
        """A handle of the lock of a name, or of several."""
        return Mutex(self._native, _options.names(names))

    def rw_lock(self, name: str) -> RwLock:
        """A handle of a read-write lock."""
        return RwLock(self._native, _options.text("name", name))

    def semaphore(self, name: str, permits: int) -> Semaphore:
        """A handle of permits, of which `permits` are held at a time."""
        permits = _options.number("permits", permits, 1, 256)
        return Semaphore(self._native, _options.text("name", name), permits)

    def election(self, name: str) -> Election:
        """A handle to lead, or to see who leads."""
        return Election(self._native, _options.text("name", name))

    def resume(self, ticket: str) -> Hold:
        """Takes up a lock that another process left by `Hold.into_ticket`."""
        return Hold(_calls.wait(self._native.resume(_options.text("ticket", ticket))))

    async def aresume(self, ticket: str) -> Hold:
        """As `resume`, in asyncio."""
        return Hold(await _calls.finish(self._native.resume(_options.text("ticket", ticket))))

    def list(self) -> Items[HeldLock]:
        """The locks that are held, with the locker's prefix: in `for` or `async for`."""
        return Items(self._native.list())

    def force_unlock_from(self, lock: HeldLock) -> bool:
        """Frees a lock that `list` showed, if the same holder still holds it. True if it did."""
        freed: bool = _calls.wait(self._native.force_unlock_from(lock._listed))
        return freed

    async def aforce_unlock_from(self, lock: HeldLock) -> bool:
        """As `force_unlock_from`, in asyncio."""
        freed: bool = await _calls.finish(self._native.force_unlock_from(lock._listed))
        return freed

    def ping(self) -> None:
        """Asks whether locks can be granted now: a readiness probe. Its error is that of `lock`."""
        _calls.wait(self._native.ping())

    async def aping(self) -> None:
        """As `ping`, in asyncio."""
        await _calls.finish(self._native.ping())

    def stats(self) -> Stats:
        """What this locker has counted. No I/O."""
        return self._native.stats()

    def node_status(self) -> Tuple[NodeStatus, ...]:
        """Whether each server may vote."""
        status: Tuple[NodeStatus, ...] = _calls.wait(self._native.node_status())
        return status

    async def anode_status(self) -> Tuple[NodeStatus, ...]:
        """As `node_status`, in asyncio."""
        status: Tuple[NodeStatus, ...] = await _calls.finish(self._native.node_status())
        return status

    def admit_nodes(self, *, force: bool = False) -> None:
        """Admits the servers of a quorum, once, while all of them are new: `quorumlock init`.

        `force` admits them though they have a cluster in another database.
        """
        _calls.wait(self._admit(force))

    async def aadmit_nodes(self, *, force: bool = False) -> None:
        """As `admit_nodes`, in asyncio."""
        await _calls.finish(self._admit(force))

    def _admit(self, force: bool) -> _native.Op:
        forced = _options.flag("force", force)
        return self._native.force_admit_nodes() if forced else self._native.admit_nodes()

    def close(self) -> None:
        """Ends all calls that wait, takes no new ones, and waits until releases are confirmed."""
        _calls.wait(self._native.close())

    async def aclose(self) -> None:
        """As `close`, in asyncio."""
        await _calls.finish(self._native.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self.aclose()


_PATIENCE = 2.0
"""For how many seconds the end of the interpreter waits for servers."""

_lockers: MutableSet[Locker] = weakref.WeakSet()
_process: Optional[int] = None


def _at_exit(locker: Locker) -> None:
    """Remembers a locker, so that the end of its process gives back what it holds."""
    global _process
    if _process != os.getpid():
        # Those of a parent are refused here.
        _lockers.clear()
        if _process is None:
            atexit.register(_end)
        _process = os.getpid()
        util = sys.modules.get("multiprocessing.util")
        if util is not None:
            # Its children end without the interpreter's own end.
            util.Finalize(None, _end, exitpriority=0)
    _lockers.add(locker)


def _end() -> None:
    if _process != os.getpid():
        return
    until = time.monotonic() + _PATIENCE
    _native.release_all(_PATIENCE)
    for locker in list(_lockers):
        try:
            _calls.wait_for(locker._native.close(), until - time.monotonic())
        except Error:
            continue
