"""What a lock promises, on one server and on a quorum, in threads and in asyncio."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from typing import List, Optional, Union

import pytest

import quorumlock as ql
from servers import Server, eventually


def test_a_lock_is_exclusive_in_its_block(locker: ql.Locker, other: ql.Locker, name: str) -> None:
    with locker.lock(name) as hold:
        assert hold.name == name and hold.is_valid() and 0 < hold.valid_for() <= 30
        hold.check()
        assert other.try_lock(name).acquire() is None
        with pytest.raises(ql.Busy) as busy:
            other.lock(name, wait=0.05).acquire()
        assert busy.value.name == name and busy.value.is_retryable and busy.value.is_busy
        assert busy.value.remaining is None or 0 < busy.value.remaining <= 30
        first = hold.token
    assert not hold.is_valid()
    with other.lock(name, wait=5) as hold:
        assert hold.token > first > 0


def test_the_same_request_serves_asyncio(locker: ql.Locker, other: ql.Locker, name: str) -> None:
    async def scenario() -> None:
        async with locker.lock(name) as hold:
            hold.check()
            assert await other.try_lock(name) is None
            with pytest.raises(ql.Busy):
                await other.lock(name, wait=timedelta(milliseconds=50))
            first = hold.token
        hold = await other.lock(name, wait=5)
        assert hold.token > first
        await hold.arenew()
        await hold.aunlock()
        assert not await other.mutex(name).ais_locked()

    asyncio.run(scenario())


def test_waiters_get_the_lock_one_after_the_other(
    locker: ql.Locker, other: ql.Locker, name: str
) -> None:
    tokens: List[int] = []
    inside = threading.Lock()

    def worker(locker: ql.Locker) -> None:
        for _round in range(10):
            with locker.lock(name) as hold:
                assert inside.acquire(blocking=False), "two holders"
                tokens.append(hold.token)
                inside.release()

    threads = [threading.Thread(target=worker, args=(one,)) for one in (locker, other) * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(tokens) == 60 and tokens == sorted(set(tokens))


def test_tasks_get_the_lock_one_after_the_other(locker: ql.Locker, name: str) -> None:
    tokens: List[int] = []

    async def worker() -> None:
        async with locker.lock(name) as hold:
            tokens.append(hold.token)
            await asyncio.sleep(0)
            assert tokens[-1] == hold.token, "two holders"

    async def scenario() -> None:
        await asyncio.gather(*[worker() for _ in range(50)])

    asyncio.run(scenario())
    assert len(tokens) == 50 and tokens == sorted(set(tokens))


def test_several_names_are_one_hold(locker: ql.Locker, other: ql.Locker, name: str) -> None:
    names = [f"{name}/b", f"{name}/a"]
    with locker.lock(names) as hold:
        assert hold.names == sorted(names)
        for one in names:
            assert other.try_lock(one).acquire() is None
        assert other.try_lock((names[0], f"{name}/c")).acquire() is None
    # All or none: the third name was not kept.
    for one in [*names, f"{name}/c"]:
        with other.try_lock(one) as free:
            assert free is not None


def test_an_unlocked_hold_is_lost_to_its_holder(locker: ql.Locker, name: str) -> None:
    hold = locker.lock(name).acquire()
    hold.unlock()
    assert hold.is_ended and not hold.is_valid() and hold.valid_for() == 0
    with pytest.raises(ql.Lost) as lost:
        hold.check()
    assert lost.value.reason is ql.LossReason.RELEASED and lost.value.name == name
    with pytest.raises(ql.Lost):
        hold.unlock()
    with pytest.raises(ql.Lost):
        hold.renew()


def test_a_block_may_unlock_its_hold_early(single: ql.Locker, name: str) -> None:
    with single.lock(name) as hold:
        hold.unlock()
        with single.lock(name, wait=1):
            pass


def test_an_owner_enters_again(locker: ql.Locker, name: str) -> None:
    owner, stranger = ql.Owner(), ql.Owner()
    assert owner == owner and owner != stranger and len({owner, stranger}) == 2
    with locker.lock(name, owner=owner) as outer:
        with locker.lock(name, owner=owner, wait=1) as inner:
            assert inner.token == outer.token and inner.hold_count == 2
        assert outer.hold_count == 1
        assert locker.mutex(name).is_held_by(owner)
        assert not locker.mutex(name).is_held_by(stranger)
        assert locker.try_lock(name, owner=stranger).acquire() is None
        # Threads are no owners: the same thread does not enter without one.
        assert locker.try_lock(name).acquire() is None


def test_read_write_locks(locker: ql.Locker, other: ql.Locker, name: str) -> None:
    lock, same = locker.rw_lock(name), other.rw_lock(name)
    with lock.read() as reader, same.read(wait=1) as second:
        assert isinstance(reader, ql.ReadHold) and reader.token and second.token
        assert same.try_write().acquire() is None
        holder = same.holder()
        assert holder is not None and holder.id == "readers" and holder.holds == 2
    writer = lock.write(wait=5).acquire()
    assert isinstance(writer, ql.WriteHold) and same.try_read().acquire() is None
    reader = writer.downgrade()
    assert writer.is_ended and reader.token == writer.token
    with same.try_read() as joined:
        assert joined is not None
    reader.unlock()
    assert lock.holder() is None and not lock.force_unlock()


def test_read_write_locks_in_asyncio(single: ql.Locker, name: str) -> None:
    async def scenario() -> None:
        lock = single.rw_lock(name)
        async with lock.write() as writer:
            assert await lock.try_read() is None
            reader = await writer.adowngrade()
            async with lock.read(wait=1):
                pass
            await reader.aunlock()
        assert await lock.aholder() is None

    asyncio.run(scenario())


def test_permits(locker: ql.Locker, other: ql.Locker, name: str) -> None:
    permits, same = locker.semaphore(name, 2), other.semaphore(name, 2)
    with same.acquire() as two, pytest.raises(ql.Lost), permits.acquire(lease=1) as one:
        assert {one.slot, two.slot} == {0, 1}
        assert permits.try_acquire().acquire() is None
        with pytest.raises(ql.Busy):
            permits.acquire(wait=0.05).acquire()
        holders = permits.holders()
        assert len(holders) == 2 and all(holders)
        assert permits.permits == 2 and permits.name == name
        assert same.force_release(one.slot)
        assert one.lost.wait(20) is not None
    assert permits.holders() == (None, None)


def test_permits_in_asyncio(single: ql.Locker, name: str) -> None:
    inside = most = 0

    async def worker() -> None:
        nonlocal inside, most
        async with single.semaphore(name, 3).acquire():
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.001)
            inside -= 1

    async def scenario() -> None:
        await asyncio.gather(*[worker() for _ in range(20)])

    asyncio.run(scenario())
    assert most == 3


def test_an_election(locker: ql.Locker, other: ql.Locker, name: str) -> None:
    election, rival = locker.election(name), other.election(name)
    assert rival.leader() is None
    term = election.campaign(label="me").acquire()
    leader = rival.leader()
    assert leader is not None and leader.has(term.nonce)
    assert eventually(lambda: _label(rival) == "me")
    states = rival.observe()
    now = next(states)
    assert now.state == "leader" and now.holder is not None and now.holder.has(term.nonce)
    with pytest.raises(ql.Busy):
        rival.campaign(wait=0.05).acquire()
    term.unlock()
    assert next(states).state == "nobody"
    assert rival.run(lambda next_term: next_term.token) > term.token


def test_an_election_campaigns_again_after_a_loss(server: Server, name: str) -> None:
    single = ql.Locker.single(server.url, lease=1)
    terms: List[int] = []

    async def work(term: ql.Hold) -> str:
        terms.append(term.token)
        if len(terms) == 1:
            await single.mutex(name).aforce_unlock()
            await asyncio.sleep(60)
        return "done"

    async def scenario() -> str:
        return await asyncio.wait_for(single.election(name).arun(work), 30)

    assert asyncio.run(scenario()) == "done"
    assert len(terms) == 2 and terms[0] < terms[1]
    assert single.election(name).leader() is None

    def blocking(term: ql.Hold) -> str:
        terms.append(term.token)
        if len(terms) == 3:
            single.mutex(name).force_unlock()
            term.lost.wait(30)
            term.check()
        return "done"

    assert single.election(name).run(blocking) == "done" and len(terms) == 4


def test_a_ticket_moves_a_hold(locker: ql.Locker, other: ql.Locker, name: str) -> None:
    hold = locker.lock(name).acquire()
    hold.renew()
    ticket = hold.into_ticket()
    assert hold.is_ended and not hold.is_valid()
    assert other.try_lock(name).acquire() is None
    resumed = other.resume(ticket)
    assert resumed.token > hold.token and resumed.name == name
    resumed.unlock()
    with pytest.raises(ql.Lost):
        other.resume(ticket)


def test_questions(locker: ql.Locker, other: ql.Locker, name: str) -> None:
    mutex = locker.mutex(name)
    assert not mutex.is_locked() and mutex.holder() is None and not mutex.force_unlock()
    with pytest.raises(ql.Lost), other.lock(name, label="report/7", lease=10) as hold:
        assert mutex.is_locked()
        # The servers of a quorum may learn the label after the grant.
        assert eventually(lambda: _label(mutex) == "report/7")
        holder = mutex.holder()
        assert holder is not None and holder.has(hold.nonce)
        assert holder.remaining is not None and 0 < holder.remaining <= 10
        listed = [lock for lock in locker.list() if lock.name == name]
        assert [(one.kind, one.slot, one.holder) for one in listed] == [
            ("lock", None, listed[0].holder)
        ]
        assert listed[0].holder.has(hold.nonce) and not listed[0].holder.has("0" * 32)
        assert locker.force_unlock_from(listed[0])
        assert hold.lost.wait(20) is not None
    assert not locker.force_unlock_from(listed[0])
    locker.ping()
    assert all(node.is_admitted or node.problem for node in _status(locker))


def _label(asked: Union[ql.Mutex, ql.Election]) -> Optional[str]:
    holder = asked.holder() if isinstance(asked, ql.Mutex) else asked.leader()
    return None if holder is None else holder.label


def _status(locker: ql.Locker) -> List[ql.NodeStatus]:
    try:
        return list(locker.node_status())
    except ql.ConfigError as error:
        # One server that proves nothing has no status.
        assert error.problem == "NoAdmission"
        return []


def test_run_holds_the_lock_for_the_work(locker: ql.Locker, name: str) -> None:
    def work(hold: ql.Hold) -> int:
        assert locker.mutex(name).is_locked()
        return hold.token

    assert locker.run(name, work) > 0

    async def awork(hold: ql.Hold) -> int:
        assert await locker.mutex(name).ais_locked()
        return hold.token

    assert asyncio.run(locker.arun(name, awork)) > 0
    assert not locker.mutex(name).is_locked()


def test_a_closed_locker_ends_its_waiters(
    single: ql.Locker, server: Server, name: str
) -> None:
    closing = ql.Locker.single(server.url)
    errors: List[BaseException] = []

    def waiter() -> None:
        try:
            closing.lock(name).acquire()
        except ql.Error as error:
            errors.append(error)

    with single.lock(name):
        thread = threading.Thread(target=waiter)
        thread.start()
        assert eventually(lambda: closing.stats().waiting == 1)
        closing.close()
        thread.join(10)
    assert len(errors) == 1 and isinstance(errors[0], ql.Closed)
    with pytest.raises(ql.Closed):
        closing.lock(name).acquire()
    assert closing.stats().closed == 1


def test_hold_at_least_keeps_the_lock(single: ql.Locker, name: str) -> None:
    begin = time.monotonic()
    with single.lock(name, hold_at_least=0.3):
        pass
    assert time.monotonic() - begin >= 0.3


def test_a_prefix_begins_every_name(
    server: Server, single: ql.Locker, name: str
) -> None:
    with ql.Locker.single(server.url, prefix="app:") as locker, locker.lock(name) as hold:
        assert hold.name == f"app:{name}" == locker.mutex(name).name
        assert single.mutex(f"app:{name}").is_locked()
