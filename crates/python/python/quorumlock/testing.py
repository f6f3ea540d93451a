"""For tests of programs that take locks: a server in the process, and a pytest fixture.

No server program and no network; lockers, holds and the watchdog are the real ones. The fixtures
`quorumlock_server` and `quorumlock_locker` are there as soon as the package is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _native
from ._locker import Locker

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import LockerOptions


class MemoryServer:
    """A server in this process. All lockers of one server exclude each other."""

    def __init__(self) -> None:
        self._native = _native.MemoryServer()

    def servers(self) -> _native.Servers:
        """This server, as `Locker` takes it."""
        return _native.Servers.memory(self._native)

    def locker(self, **options: Unpack[LockerOptions]) -> Locker:
        """A locker on this server. Give a short `lease`, such as 0.3, where a test loses locks."""
        return Locker(self.servers(), **options)

    def forget_locks(self) -> None:
        """Loses all locks, as a server that restarts without its data.

        A holder learns of it at its next renewal: after a third of its lease at the latest.
        """
        self._native.forget_locks()

    def stop(self) -> None:
        """Answers nobody from now on: locks are lost when their leases end."""
        self._native.stop()

    def start(self) -> None:
        """Answers again."""
        self._native.start()


__all__ = ["MemoryServer"]
