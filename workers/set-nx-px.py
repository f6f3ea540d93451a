#!/usr/bin/env python3
"""A lock by SET NX PX on one server, given back by compare-and-delete. Standard library only.

A worker of the lab, by the lines of docs/lab/WORKERS.md. It renews nothing and tells no loss: from the
end of the lease on, by this process' clock, `check` says that the hold is not valid.
"""
import json
import os
import socket
import sys
import threading
import time
from urllib.parse import urlsplit

RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
POLL_EVERY = 0.01  # seconds
ANSWER_WITHIN = 2  # seconds

server = None
holds = {}  # id: name, nonce, end of the lease
out = threading.Lock()


def clock():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def say(line, **fields):
    with out:
        print(json.dumps({"line": line, **fields}), flush=True)


def ask(*words):
    """The first line of the answer, which is all of it for these commands."""
    with socket.create_connection(server, timeout=ANSWER_WITHIN) as link, link.makefile("rwb") as stream:
        stream.write(b"*%d\r\n" % len(words))
        for word in (str(word).encode() for word in words):
            stream.write(b"$%d\r\n%s\r\n" % (len(word), word))
        stream.flush()
        answer = stream.readline().decode().strip()
    if not answer or answer.startswith("-"):
        raise OSError(answer or "the server closed the connection")
    return answer[1:]


def hello(servers, **_):
    global server
    if servers:
        url = urlsplit(servers[0])
        server = url.hostname, url.port
    say("hello", protocol=1, library="SET NX PX", version="1", topologies=["one"], kinds=["lock"],
        features=["validity"], options={"poll_ms": 1000 * POLL_EVERY})


def acquire(id, names, lease_ms, wait_ms=None, **_):
    nonce, asked = os.urandom(16).hex(), clock()
    try:
        while True:
            # The lease counts from here: the server may have got the request at once.
            sent = clock()
            if ask("SET", names[0], nonce, "NX", "PX", lease_ms) == "OK":
                break
            if wait_ms is not None and clock() >= asked + wait_ms * 1_000_000:
                return say("refused", id=id, asked_ns=asked, heard_ns=clock(), held=True, why="the key exists")
            time.sleep(POLL_EVERY)
    except OSError as error:
        return say("refused", id=id, asked_ns=asked, heard_ns=clock(), held=False, why=str(error))
    heard, end = clock(), sent + lease_ms * 1_000_000
    holds[id] = names[0], nonce, end
    say("granted", id=id, asked_ns=asked, heard_ns=heard, valid_for_ns=max(0, end - heard))


def check(id, **_):
    now, end = clock(), holds[id][2]
    say("checked", id=id, asked_ns=now, heard_ns=now, valid=now < end, valid_for_ns=max(0, end - now))


def release(id, **_):
    name, nonce, _end = holds.pop(id)
    asked = clock()
    try:
        freed, why = ask("EVAL", RELEASE, 1, name, nonce) == "1", "the key is not ours"
    except OSError as error:
        freed, why = False, str(error)
    say("released", id=id, asked_ns=asked, heard_ns=clock(), ok=freed, why="" if freed else why)


orders = {"hello": hello, "acquire": acquire, "check": check, "release": release}
for text in sys.stdin:
    order = json.loads(text)
    carry_out = orders.get(order.pop("order"), lambda **_: None)
    if carry_out is hello:
        hello(**order)  # before all others
    else:
        threading.Thread(target=carry_out, kwargs=order, daemon=True).start()
os._exit(0)  # the lab has ended: give nothing back
