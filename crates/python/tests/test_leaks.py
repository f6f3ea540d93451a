"""10,000 locks leave nothing behind: no memory, no descriptors, no keys."""

from __future__ import annotations

import asyncio
import gc
import os
import sys

import pytest

import quorumlock as ql
from servers import Server

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

LOCKS = 10_000


def resident() -> int:
    """The memory of this process in kB."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("VmRSS:"))
    return int(line.split()[1])


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def _threads(locker: ql.Locker, count: int) -> None:
    for number in range(count):
        with locker.lock(f"leak/{number}") as hold:
            hold.on_lost(print)


def _tasks(locker: ql.Locker, count: int) -> None:
    async def one(number: int) -> None:
        async with locker.lock(f"leak/{number}", cancel_on_loss=number % 2 == 0):
            pass

    async def all_of_them() -> None:
        for first in range(0, count, 50):
            await asyncio.gather(*[one(first + number) for number in range(50)])

    asyncio.run(all_of_them())


def _collected(locker: ql.Locker, count: int) -> None:
    for number in range(count):
        locker.lock(f"leak/{number}").acquire()


@pytest.mark.parametrize("work", [_threads, _tasks, _collected])
def test_locks_leave_nothing_behind(server: Server, work) -> None:  # type: ignore[no-untyped-def]
    with ql.Locker.single(server.url) as locker:
        work(locker, 3_000)
        gc.collect()
        before, open_before = resident(), descriptors()
        work(locker, LOCKS)
        gc.collect()
        grown = resident() - before
        # 10,000 holds of 100 bytes each would be more.
        assert grown < 1_000, f"{grown} kB for {LOCKS} locks"
        assert descriptors() <= open_before
        assert locker.stats().held == 0
    assert b"leak/" not in server.ask("KEYS", "leak/*")
