#!/usr/bin/env python3
"""redis-py's `Lock`, with its defaults and the lease as its `timeout`.

A worker of the lab, by the lines of docs/lab/WORKERS.md. The library renews nothing, tells no loss, and
does not say for how long a lock is valid: `check` asks the server (`Lock.owned`).
"""
import json
import os
import sys
import threading
import time
from urllib.parse import urlsplit

out = threading.Lock()
client = None
holds = {}  # id: Lock


def clock():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def say(line, **fields):
    with out:
        print(json.dumps({"line": line, **fields}), flush=True)


try:
    import redis
    from redis.sentinel import Sentinel
except ImportError as error:
    say("absent", why=f"redis-py: {error}")
    sys.exit()


def hello(servers, topology, master=None, **_):
    global client
    urls = [urlsplit(server) for server in servers]
    if topology == "sentinel":
        client = Sentinel([(url.hostname, url.port) for url in urls]).master_for(master)
    elif urls:
        client = redis.Redis(host=urls[0].hostname, port=urls[0].port)
    say("hello", protocol=1, library="redis-py Lock", version=redis.__version__,
        topologies=["one", "sentinel"], kinds=["lock"], options={"timeout": "the lease", "thread_local": False})


def acquire(id, names, lease_ms, wait_ms=None, **_):
    # One thread takes the lock and another gives it back.
    lock = client.lock(names[0], timeout=lease_ms / 1000, thread_local=False)
    wait = None if wait_ms is None else wait_ms / 1000
    asked = clock()
    try:
        got, why = lock.acquire(blocking=wait != 0, blocking_timeout=wait or None), "another client holds it"
    except redis.RedisError as error:
        return say("refused", id=id, asked_ns=asked, heard_ns=clock(), held=False, why=str(error))
    heard = clock()
    if not got:
        return say("refused", id=id, asked_ns=asked, heard_ns=heard, held=True, why=why)
    holds[id] = lock
    say("granted", id=id, asked_ns=asked, heard_ns=heard)


def check(id, **_):
    asked = clock()
    try:
        valid = holds[id].owned()
    except redis.RedisError:
        valid = False
    say("checked", id=id, asked_ns=asked, heard_ns=clock(), valid=valid)


def release(id, **_):
    asked, why = clock(), ""
    try:
        holds.pop(id).release()
    except redis.RedisError as error:
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
