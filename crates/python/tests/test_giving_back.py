"""Every way out of a block gives the lock back, long before its lease of 30 s ends."""

from __future__ import annotations

import asyncio
import gc
import random
import signal
import time
from typing import Any, List, Optional

import pytest

import quorumlock as ql
from quorumlock import _calls
from servers import Server, eventually, output, python


def is_free(locker: ql.Locker, name: str, seconds: float = 5) -> bool:
    """Whether the lock is free before the time is over."""
    try:
        with locker.lock(name, wait=seconds):
            return True
    except ql.Busy:
        return False


def test_an_exception_in_a_block(locker: ql.Locker, other: ql.Locker, name: str) -> None:
    with pytest.raises(KeyError):
        with locker.lock(name):
            raise KeyError(name)
    assert is_free(other, name)

    async def scenario() -> None:
        async with locker.lock(name):
            raise KeyError(name)

    with pytest.raises(KeyError):
        asyncio.run(scenario())
    assert is_free(other, name)


def test_a_collected_hold(locker: ql.Locker, other: ql.Locker, name: str) -> None:
    hold: Optional[ql.Hold] = locker.lock(name).acquire()
    assert hold is not None and other.try_lock(name).acquire() is None
    del hold
    gc.collect()
    assert is_free(other, name)


def test_a_collected_locker(server: Server, single: ql.Locker, name: str) -> None:
    hold = ql.Locker.single(server.url).lock(name).acquire()
    assert hold.is_valid()
    del hold
    gc.collect()
    # The end of the last handle has waited for the release.
    with single.try_lock(name) as free:
        assert free is not None


@pytest.mark.parametrize("contended", [False, True])
def test_a_cancellation_at_any_time(
    locker: ql.Locker, other: ql.Locker, name: str, contended: bool
) -> None:
    """Cancels after each number of turns of the loop, and after random times."""
    entered: List[int] = []

    async def block(number: int) -> None:
        async with locker.lock(name):
            entered.append(number)
            await asyncio.sleep(0.001)

    async def cancelled_after(turns: int, seconds: float) -> None:
        task = asyncio.ensure_future(block(turns))
        for _turn in range(turns):
            await asyncio.sleep(0)
        if seconds:
            await asyncio.sleep(seconds)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            pass
        assert not asyncio.all_tasks() - {asyncio.current_task()}

    async def scenario() -> None:
        draw = random.Random(name)
        for turns in range(40):
            held = await other.lock(name, wait=5) if contended else None
            await cancelled_after(turns, 0)
            if held is not None:
                await held.aunlock()
        for _round in range(60):
            await cancelled_after(0, draw.uniform(0, 0.004))

    asyncio.run(scenario())
    assert entered, "every time it was cancelled before it held the lock"
    assert is_free(other, name)


class _Loop(asyncio.SelectorEventLoop):
    """Cancels a task in the turn of the loop in which a result comes, before the task sees it."""

    victim: Optional[asyncio.Task[Any]] = None

    def create_future(self) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = super().create_future()
        if self.victim is not None:
            victim, self.victim = self.victim, None
            future.add_done_callback(lambda done: done.cancelled() or victim.cancel())
        return future


def test_a_cancellation_in_the_turn_of_the_result(
    locker: ql.Locker, other: ql.Locker, name: str
) -> None:
    loop = _Loop()

    async def scenario() -> None:
        async def waits() -> None:
            loop.victim = asyncio.current_task()
            await locker.lock(name)

        task = loop.create_task(waits())
        with pytest.raises(asyncio.CancelledError):
            await task
        assert locker.stats().granted == 1, "it was cancelled before the grant"

    loop.run_until_complete(scenario())
    loop.close()
    assert is_free(other, name)


def test_a_cancelled_release_is_a_release(
    locker: ql.Locker, other: ql.Locker, name: str
) -> None:
    async def scenario() -> None:
        # In no turn a task has not begun: nobody has called `aunlock` then.
        for turns in range(1, 20):
            hold = await locker.lock(name, wait=5)
            task = asyncio.ensure_future(hold.aunlock())
            for _turn in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert hold.is_ended

    asyncio.run(scenario())
    assert is_free(other, name)


def test_a_timeout_round_a_request(locker: ql.Locker, other: ql.Locker, name: str) -> None:
    async def scenario() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(locker.lock(name), 0.05)
        assert locker.stats().waiting == 0 or eventually(lambda: locker.stats().waiting == 0)

    with other.lock(name):
        asyncio.run(scenario())
    assert is_free(other, name)


def test_a_loop_that_ends_with_a_task_in_a_block(single: ql.Locker, name: str) -> None:
    async def block() -> None:
        async with single.lock(name):
            await asyncio.sleep(60)

    async def scenario() -> None:
        asyncio.ensure_future(block())
        while not await single.mutex(name).ais_locked():
            await asyncio.sleep(0.001)

    # `run` cancels what is left.
    asyncio.run(scenario())
    assert is_free(single, name)


_INTERRUPTED = """
import signal, sys
import quorumlock as ql

# A shell starts what runs in the background with the signal ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
locker = ql.Locker.single(sys.argv[1])
try:
    if sys.argv[3] == "held":
        with locker.lock(sys.argv[2]) as hold:
            print("ready", flush=True)
            hold.lost.wait()
    else:
        print("ready", flush=True)
        locker.lock(sys.argv[2]).acquire()
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize("where", ["held", "waiting"])
def test_ctrl_c_ends_a_wait_at_once(
    server: Server, single: ql.Locker, name: str, where: str
) -> None:
    held = single.lock(name).acquire() if where == "waiting" else None
    process = python(_INTERRUPTED, server.url, name, where, stdin=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    if where == "waiting":
        time.sleep(0.1)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "interrupted\n"
    assert time.monotonic() - begin < 10
    if held is not None:
        held.unlock()
    # The program still runs, and holds nothing.
    assert process.poll() is None and is_free(single, name)
    process.communicate("\n", timeout=10)


_HANDLED = """
import signal, sys, threading
import quorumlock as ql

signal.signal(signal.SIGUSR1, lambda number, frame: print("handled", flush=True))
print("ready", flush=True)
with ql.Locker.single(sys.argv[1]).lock(sys.argv[2]) as hold:
    print("held", flush=True)
"""


def test_a_signal_that_is_handled_ends_no_wait(
    server: Server, single: ql.Locker, name: str
) -> None:
    held = single.lock(name).acquire()
    process = python(_HANDLED, server.url, name)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.readline() == "handled\n"
    held.unlock()
    assert output(process) == "held"


_ENDS = """
import sys
import quorumlock as ql

locker = ql.Locker(ql.Servers(sys.argv[1]))
hold = locker.lock(sys.argv[2]).acquire()
keep = [hold, sys.modules]  # a circle that nobody collects
hold_of_module = hold
if sys.argv[3] == "raise":
    raise SystemExit(0)
if sys.argv[3] == "thread":
    import threading
    threading.Thread(target=lambda: hold.lost.wait(), daemon=True).start()
"""


@pytest.mark.parametrize("how", ["end", "raise", "thread"])
def test_the_end_of_the_interpreter(
    urls: List[str], other: ql.Locker, name: str, how: str
) -> None:
    output(python(_ENDS, ",".join(urls), name, how))
    with other.try_lock(name) as free:
        assert free is not None


_CHILD = """
import multiprocessing, sys
import quorumlock as ql

kept = []

def child(url, name):
    kept.append(ql.Locker.single(url).lock(name).acquire())

if __name__ == "__main__":
    method = multiprocessing.get_context("fork")
    process = method.Process(target=child, args=sys.argv[1:])
    process.start()
    process.join()
    print(process.exitcode)
"""


def test_the_end_of_a_child_of_multiprocessing(
    server: Server, single: ql.Locker, name: str
) -> None:
    assert output(python(_CHILD, server.url, name)) == "0"
    with single.try_lock(name) as free:
        assert free is not None


def test_a_killed_holder_is_free_when_its_lease_ends(
    server: Server, single: ql.Locker, name: str
) -> None:
    source = (
        "import quorumlock as ql, sys, time\n"
        "hold = ql.Locker.single(sys.argv[1]).lock(sys.argv[2], lease=1).acquire()\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    process = python(source, server.url, name)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.kill()
    process.communicate()
    begin = time.monotonic()
    assert is_free(single, name) and time.monotonic() - begin < 3


def test_no_call_is_left_in_a_bridge(single: ql.Locker, name: str) -> None:
    async def scenario() -> None:
        bridge = _calls.bridge_of(asyncio.get_running_loop())
        assert bridge is _calls.bridge_of(asyncio.get_running_loop())
        for _round in range(10):
            async with single.lock(name):
                pass

    asyncio.run(scenario())
    assert single.stats().held == 0
