#!/usr/bin/env python3
"""quorumlock's package for Python, with its defaults and the lease; a quorum is plain Redlock.

A worker of the lab, by the lines of docs/lab/WORKERS.md: the same locks as the lab's own worker takes, by
another door. The package tells no renewal, so a thread looks how long each hold is valid.
"""
import json
import os
import sys
import threading
import time

out = threading.Lock()
locker = None
holds = {}  # id: hold
LOOK_EVERY = 0.02  # seconds


def clock():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def say(line, **fields):
    with out:
        print(json.dumps({"line": line, **fields}), flush=True)


try:
    import quorumlock as ql
except ImportError as error:
    say("absent", why=f"quorumlock for Python: {error}")
    sys.exit()


def hello(servers, topology, lease_ms=None, master=None, **_):
    global locker
    # New servers of a quorum are admitted by an operator, once. The lab starts them, and admits none.
    options = {"admission": "redlock"} if topology == "quorum" else {}
    if servers:
        how = {"one": lambda: ql.Servers.single(servers[0]), "quorum": lambda: ql.Servers.quorum(servers),
               "sentinel": lambda: ql.Servers.sentinel(servers, master)}[topology]
        locker = ql.Locker(how(), lease=lease_ms / 1000, **options)
    say("hello", protocol=1, library="quorumlock for Python", version=ql.__version__,
        topologies=["one", "quorum", "sentinel"], kinds=["lock", "read", "write", "permit"],
        features=["validity", "renewal", "loss", "tokens", "names"],
        options={"lease": "the lease", **options})


def request(names, kind, permits, **options):
    if kind == "permit":
        return locker.semaphore(names[0], permits).acquire(**options)
    if kind == "lock":
        return locker.lock(names, **options)
    return getattr(locker.rw_lock(names[0]), kind)(**options)


def acquire(id, names, lease_ms, kind="lock", permits=None, wait_ms=None, **_):
    options = {"lease": lease_ms / 1000, **({} if wait_ms is None else {"wait": wait_ms / 1000})}
    asked = clock()
    try:
        hold = request(names, kind, permits, **options).acquire()
    except ql.Error as error:
        return say("refused", id=id, asked_ns=asked, heard_ns=clock(), held=isinstance(error, ql.Busy),
                   why=str(error))
    heard, left = clock(), hold.valid_for()
    holds[id] = hold
    say("granted", id=id, asked_ns=asked, heard_ns=heard, token=hold.token, valid_for_ns=int(left * 1e9))
    hold.on_lost(lambda lost: say("lost", id=id, heard_ns=clock(), why=str(lost.reason)))
    tell_renewals(id, hold, heard + int(left * 1e9))


def tell_renewals(id, hold, ends):
    while holds.get(id) is hold and hold.is_valid():
        now, left = clock(), int(hold.valid_for() * 1e9)
        if now + left > ends + 10_000_000:
            ends = now + left
            say("renewed", id=id, heard_ns=now, valid_for_ns=left)
        time.sleep(LOOK_EVERY)


def check(id, **_):
    asked, hold = clock(), holds[id]
    valid, left = hold.is_valid(), hold.valid_for()
    say("checked", id=id, asked_ns=asked, heard_ns=clock(), valid=valid, valid_for_ns=int(left * 1e9))


def release(id, **_):
    asked, why = clock(), ""
    try:
        holds.pop(id).unlock()
    except ql.Error as error:
        why = str(error)
    say("released", id=id, asked_ns=asked, heard_ns=clock(), ok=not why, why=why)


orders = {"hello": hello, "acquire": acquire, "check": check, "release": release}
for text in sys.stdin:
    order = json.loads(text)
    carry_out = orders.get(order.pop("order"), lambda **_: None)
    if carry_out is hello:
        hello(**order)  # before all others
    else:
        threading.Thread(target=carry_out, kwargs=order, daemon=True).start()
os._exit(0)  # the lab has ended: give nothing back
