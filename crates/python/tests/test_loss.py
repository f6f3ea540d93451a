"""A lock that is lost: who is told, and when. And servers that cannot answer."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import List

import pytest

import quorumlock as ql
from quorumlock.testing import MemoryServer
from servers import Server, eventually, free_port


def test_a_forced_loss_is_told_to_all_that_wait(locker: ql.Locker, name: str) -> None:
    told: List[ql.Lost] = []
    hold = locker.lock(name, lease=3).acquire()
    hold.on_lost(told.append)
    assert hold.lost.wait(0.01) is None and not hold.lost.is_set()
    assert locker.mutex(name).force_unlock()
    lost = hold.lost.wait(10)
    assert lost is not None and lost.name == name
    assert lost.reason in (ql.LossReason.FORCED, ql.LossReason.GONE)
    assert eventually(lambda: len(told) == 1) and told[0].reason is lost.reason
    assert hold.lost.is_set() and hold.loss_ahead() is lost.reason
    with pytest.raises(ql.Lost, match="stop the work"):
        hold.check()
    with pytest.raises(ql.Lost):
        hold.unlock()
    assert hold.is_ended


def test_an_unlock_is_no_loss(single: ql.Locker, name: str) -> None:
    told: List[ql.Lost] = []
    hold = single.lock(name).acquire()
    hold.on_lost(told.append)
    hold.unlock()
    ended = hold.lost.wait(5)
    assert ended is not None and ended.reason is ql.LossReason.RELEASED
    time.sleep(0.05)
    assert not told


def test_a_callback_that_fails_is_reported(
    single: ql.Locker, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    said: List[str] = []

    def fails(lost: ql.Lost) -> None:
        raise RuntimeError("a mistake in the callback")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.unraisablehook", lambda args: said.append(str(args.exc_value)))
        with pytest.raises(ql.Lost), single.lock(name, lease=1) as hold:
            hold.on_lost(fails)
            single.mutex(name).force_unlock()
            hold.lost.wait(10)
            assert eventually(lambda: bool(said))
    assert said == ["a mistake in the callback"]


def test_a_loss_in_a_block_is_an_error_at_its_end(single: ql.Locker, name: str) -> None:
    with pytest.raises(ql.Lost):
        with single.lock(name, lease=1):
            single.mutex(name).force_unlock()
    # An error of the block wins.
    with pytest.raises(KeyError):
        with single.lock(name, lease=1):
            single.mutex(name).force_unlock()
            raise KeyError(name)


def test_asyncio_is_told_of_a_loss(locker: ql.Locker, name: str) -> None:
    async def scenario() -> None:
        hold = await locker.lock(name, lease=3)
        waiting = asyncio.ensure_future(_lost(hold))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        await locker.mutex(name).aforce_unlock()
        lost = await asyncio.wait_for(waiting, 10)
        assert lost.reason is not ql.LossReason.RELEASED
        with pytest.raises(ql.Lost):
            await hold.aunlock()

    asyncio.run(scenario())


async def _lost(hold: ql.Hold) -> ql.Lost:
    return await hold.lost


def test_a_loss_cancels_a_block_that_asks_for_it(locker: ql.Locker, name: str) -> None:
    reached: List[str] = []

    async def scenario() -> None:
        begin = time.monotonic()
        with pytest.raises(ql.Lost) as lost:
            async with locker.lock(name, lease=3, cancel_on_loss=True):
                await locker.mutex(name).aforce_unlock()
                try:
                    await asyncio.sleep(60)
                finally:
                    reached.append("the block was cancelled")
        assert lost.value.name == name and time.monotonic() - begin < 10
        # The cancellation was the block's, not the task's.
        await asyncio.sleep(0)
        reached.append("the task goes on")
        async with locker.lock(name, cancel_on_loss=True) as hold:
            await asyncio.sleep(0.01)
            hold.check()

    asyncio.run(asyncio.wait_for(scenario(), 30))
    assert reached == ["the block was cancelled", "the task goes on"]


def test_a_cancellation_from_outside_stays_one(single: ql.Locker, name: str) -> None:
    async def scenario() -> None:
        async def block() -> None:
            async with single.lock(name, cancel_on_loss=True):
                await asyncio.sleep(60)

        task = asyncio.ensure_future(block())
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with single.lock(name, wait=5):
            pass

    asyncio.run(scenario())


def test_a_hold_limit_ends_the_hold(single: ql.Locker, name: str) -> None:
    hold = single.lock(name, hold_at_most=0.1).acquire()
    assert hold.loss_ahead() is ql.LossReason.HOLD_LIMIT
    lost = hold.lost.wait(5)
    assert lost is not None and lost.reason is ql.LossReason.HOLD_LIMIT


def test_a_dead_server_loses_the_lock_when_the_lease_ends(own_server: Server) -> None:
    with ql.Locker.single(own_server.url, lease=0.6) as locker:
        hold = locker.lock("dead").acquire()
        own_server.kill()
        begin = time.monotonic()
        assert hold.at_risk.wait(5) and hold.is_valid() or not hold.is_valid()
        lost = hold.lost.wait(5)
        assert lost is not None and lost.reason is ql.LossReason.WINDOW_SHUT
        assert time.monotonic() - begin < 5
        assert hold.valid_for() == 0
        with pytest.raises(ql.Unreachable) as silent:
            locker.lock("dead", fail_fast=True).acquire()
        assert silent.value.is_retryable and (silent.value.of, silent.value.needed) == (1, 1)
        assert silent.value.nodes[0].problem == "NotConnected" and silent.value.nodes[0].may_pass
        with pytest.raises(ql.Unreachable):
            locker.ping()
        own_server.start()
        assert eventually(lambda: _granted(locker), 20)


def _granted(locker: ql.Locker) -> bool:
    try:
        with locker.try_lock("dead") as hold:
            return hold is not None
    except (ql.Unreachable, ql.Refused):
        return False


def test_a_dead_minority_loses_nothing() -> None:
    servers = [Server() for _ in range(3)]
    try:
        with ql.Locker.quorum([server.url for server in servers], lease=1) as locker:
            locker.admit_nodes()
            with locker.lock("quorum") as hold:
                servers[0].kill()
                assert hold.lost.wait(2.5) is None
                hold.check()
                status = locker.node_status()
                assert [node.is_admitted for node in status].count(True) == 2
            with locker.lock("quorum", wait=10) as hold:
                servers[1].kill()
                lost = hold.lost.wait(5)
                assert lost is not None and lost.reason is ql.LossReason.WINDOW_SHUT
                with pytest.raises(ql.Unreachable) as silent:
                    locker.try_lock("else").acquire()
                assert silent.value.needed == 2 and silent.value.of == 3
                assert len(silent.value.details.splitlines()) >= 2
    except ql.Lost:
        pass
    finally:
        for server in servers:
            server.close()


def test_a_paused_server_answers_later(own_server: Server) -> None:
    with ql.Locker.single(own_server.url, lease=5) as locker:
        with locker.lock("paused") as hold:
            own_server.pause()
            with pytest.raises(ql.Unreachable):
                hold.renew()
            hold.check()
            own_server.go_on()
            assert eventually(lambda: _renews(hold))


def _renews(hold: ql.Hold) -> bool:
    try:
        hold.renew()
        return True
    except ql.Unreachable:
        return False


def test_a_key_of_another_kind_is_refused(server: Server, single: ql.Locker, name: str) -> None:
    server.ask("LPUSH", name, "data")
    with pytest.raises(ql.Refused) as refused:
        single.lock(name).acquire()
    error = refused.value
    assert not error.is_retryable and error.name == name and error.answered == 1
    assert error.nodes[0].problem in ("WrongType", "NotALock") and error.nodes[0].text
    assert error.nodes[0].node in str(error) or error.of == 1
    server.ask("DEL", name)


def test_a_port_where_nobody_listens() -> None:
    with ql.Locker.single(f"redis://127.0.0.1:{free_port()}") as locker:
        begin = time.monotonic()
        with pytest.raises(ql.Unreachable, match="did not answer"):
            locker.lock("nobody", wait=0.2).acquire()
        with pytest.raises(ql.Unreachable):
            asyncio.run(locker.aping())
        assert time.monotonic() - begin < 10


def test_a_loss_wakes_threads_and_tasks_of_one_hold() -> None:
    memory = MemoryServer()
    locker = memory.locker(lease=0.3)
    hold = locker.lock("both").acquire()
    losses: List[ql.Lost] = []

    def waits() -> None:
        lost = hold.lost.wait(10)
        assert lost is not None
        losses.append(lost)

    threads = [threading.Thread(target=waits) for _ in range(3)]
    for thread in threads:
        thread.start()
    memory.forget_locks()
    assert asyncio.run(asyncio.wait_for(_lost(hold), 10)).reason is ql.LossReason.GONE
    for thread in threads:
        thread.join(10)
    assert len(losses) == 3
