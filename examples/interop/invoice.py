"""Appends two lines to a file, under a lock: python invoice.py HOST:PORT NAME FILE"""
import os
import sys
import time

import redis

servers, name, file = sys.argv[1:]
if "," in servers:
    sys.exit("redis-py's Lock is a lock on one server")
host, port = servers.split(":")
client = redis.Redis(host=host, port=int(port))


def write(what):
    with open(file, "a") as out:
        out.write(f"python {os.getpid()} {what}\n")


# timeout: without one the lock of a process that died is held for ever. redis-py does not renew,
# so the work must end within it. sleep: how often it polls. blocking_timeout: how long it waits.
# The value of the key is a random token, which release() compares.
with client.lock(name, timeout=10, sleep=0.1, blocking_timeout=60):
    write("begin")
    time.sleep(0.05)
    write("end")
