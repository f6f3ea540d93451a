"""redis-py's Lock (one server) or pottery's Redlock (several) driven by lines (../README.md).

python line.py HOST:PORT[,HOST:PORT...] TIMEOUT_MS
"""
import itertools
import os
import statistics
import sys
import threading
import time

import redis

nodes, timeout = sys.argv[1].split(","), int(sys.argv[2]) / 1000
clients = [redis.Redis(host=n.split(":")[0], port=int(n.split(":")[1])) for n in nodes]
held, say = {}, threading.Lock()


def make(name):
    if len(clients) == 1:
        return clients[0].lock(name, timeout=timeout, thread_local=False)
    import pottery

    name = name.removeprefix("redlock:")  # pottery's key is "redlock:" + its name
    return pottery.Redlock(key=name, masters=set(clients), auto_release_time=timeout)


def run(who, command, name, *args):
    if command == "pairs":
        return pairs(name, int(args[0]), int(args[1]))
    if command == "contend":
        return contend(name, int(args[0]), float(args[1]))
    if command in ("lock", "try"):
        lock = make(name)
        if len(clients) == 1:
            got = lock.acquire(blocking_timeout=None if command == "lock" else int(args[0]) / 1000)
        else:
            got = lock.acquire(timeout=-1 if command == "lock" else int(args[0]) / 1000)
        if got:
            held[who, name] = lock
        return "ok" if got else "no"
    lock = held[who, name]
    if command == "unlock":
        lock.release()
        return "ok"
    if command == "extend":
        lock.extend(*([timeout] if len(clients) == 1 else []), **({"replace_ttl": True} if len(clients) == 1 else {}))
        return "ok"
    if command == "held":
        return "ok" if (lock.owned() if len(clients) == 1 else lock.locked()) else "no"
    return "error no such command"


def pairs(prefix, count, callers):
    numbers, took = itertools.count(), []

    def call(caller):
        while (number := next(numbers)) < count:
            asked = time.monotonic()
            lock = make(f"{prefix}:{caller}:{number}")
            if not lock.acquire():
                raise RuntimeError("not locked")
            lock.release()
            took.append(time.monotonic() - asked)

    begin = time.monotonic()
    in_threads(callers, call)
    seconds = time.monotonic() - begin
    return f"ok {statistics.median(took) * 1e6:.0f} {count / seconds}"


def contend(name, waiters, seconds):
    end, note = time.monotonic() + seconds, threading.Lock()
    gaps, waits, turns = [], [0], []  # a turn: who, and when its work ended

    def call(caller):
        while (asked := time.monotonic()) < end:
            lock = make(name)
            if not lock.acquire():
                raise RuntimeError("not locked")
            with note:
                granted = time.monotonic()
                waits.append(min(granted, end) - asked)
                if granted < end and turns and turns[-1][0] != caller:
                    gaps.append(granted - turns[-1][1])
            # Nobody works after the end: those who still wait then let go at once.
            if granted < end:
                time.sleep(0.001)
                turns.append((caller, time.monotonic()))
            lock.release()

    in_threads(waiters, call)
    gap = statistics.median(gaps) * 1e6 if gaps else -1
    return f"ok {gap:.0f} {max(waits) * 1e3:.0f} {len(turns)}"


def in_threads(callers, call):
    failed = []

    def one(caller):
        try:
            call(caller)
        except Exception as e:
            failed.append(e)

    threads = [threading.Thread(target=one, args=(caller,), daemon=True) for caller in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def one(ident, *rest):
    start = time.monotonic()
    try:
        answer = run(*rest)
    except Exception as e:  # the driver tells whatever the library says
        answer = f"error {type(e).__name__}: {e}"
    with say:
        print(ident, int((time.monotonic() - start) * 1000), answer.replace("\n", " "), flush=True)


print("ready", flush=True)
for line in sys.stdin:
    threading.Thread(target=one, args=line.split(), daemon=True).start()
os._exit(0)  # pottery's pools of threads would be waited for
