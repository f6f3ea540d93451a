"""Loops of asyncio: several, closed ones, uvloop, and loops that watch no descriptors."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from typing import Any, List

import pytest

import quorumlock as ql
from quorumlock import _calls
from quorumlock.testing import MemoryServer


async def _locks(locker: ql.Locker, name: str, rounds: int = 20) -> int:
    async def one() -> int:
        async with locker.lock(name) as hold:
            await asyncio.sleep(0)
            return hold.token

    return len(set(await asyncio.gather(*[one() for _ in range(rounds)])))


def test_uvloop(single: ql.Locker, name: str) -> None:
    uvloop = pytest.importorskip("uvloop")
    loop = uvloop.new_event_loop()
    try:
        assert loop.run_until_complete(_locks(single, name)) == 20

        async def cancelled() -> None:
            hold = await single.lock(name)
            task = asyncio.ensure_future(_locks(single, name, 1))
            await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await hold.aunlock()

        loop.run_until_complete(cancelled())
    finally:
        loop.close()


class _Blind(asyncio.SelectorEventLoop):
    """Watches no descriptors for the program, as the loop of Windows."""

    def add_reader(self, *args: Any) -> None:  # type: ignore[override]
        raise NotImplementedError


def test_a_loop_that_watches_no_descriptors(single: ql.Locker, name: str) -> None:
    # Its own wake-up descriptor is added by a method of another name.
    loop = _Blind()
    try:
        assert loop.run_until_complete(_locks(single, name)) == 20
    finally:
        loop.close()


def test_a_loop_in_each_thread(single: ql.Locker, name: str) -> None:
    counts: List[int] = []

    def runs() -> None:
        counts.append(asyncio.run(_locks(single, name)))

    threads = [threading.Thread(target=runs) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert counts == [20] * 4


def test_one_loop_after_the_other(single: ql.Locker, name: str) -> None:
    for _round in range(20):
        assert asyncio.run(_locks(single, name, 2)) == 2
    gc.collect()
    assert len(_calls._bridges) <= 2


def test_a_closed_loop_is_collected() -> None:
    locker = MemoryServer().locker()
    loop = asyncio.new_event_loop()
    assert loop.run_until_complete(_locks(locker, "x", 3)) == 3
    loop.close()
    weak = weakref.ref(loop)
    del loop
    gc.collect()
    assert weak() is None


def test_the_loop_runs_while_a_task_waits(single: ql.Locker, name: str) -> None:
    async def scenario() -> int:
        ticks = 0
        hold = await single.lock(name)
        waiter = asyncio.ensure_future(_locks(single, name, 1))
        for _tick in range(10):
            await asyncio.sleep(0.005)
            ticks += 1
        assert not waiter.done()
        await hold.aunlock()
        assert await asyncio.wait_for(waiter, 10) == 1
        return ticks

    assert asyncio.run(scenario()) == 10


def test_other_threads_run_while_one_waits(single: ql.Locker, name: str) -> None:
    """The GIL is free in a wait: this test would hang if the waiter kept it."""
    done = threading.Event()

    def waits() -> None:
        with single.lock(name):
            done.set()

    with single.lock(name):
        thread = threading.Thread(target=waits)
        thread.start()
        counted = sum(1 for _ in range(100_000))
        assert counted == 100_000 and not done.is_set()
    thread.join(10)
    assert done.is_set()


def test_streams_in_asyncio(single: ql.Locker, name: str) -> None:
    async def scenario() -> List[str]:
        states = []
        async for now in single.election(name).observe():
            states.append(now.state)
            if now.state == "leader":
                break
            await single.election(name).campaign()
        return states

    async def listed() -> List[str]:
        async with single.lock(name):
            return [lock.name async for lock in single.list()]

    assert asyncio.run(scenario()) == ["nobody", "leader"]
    assert name in asyncio.run(listed())
