"""Pairs of lock and unlock a second, beside other lock clients for Python, in one run.

Each name is locked once, and no other client wants it. All clients use the same servers, in turns,
for several rounds: a cell is the median of its rounds. `make bench-python` runs it, and writes the
table of docs/PYTHON.md.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import statistics
import subprocess
import sys
import threading
import time
import uuid
from importlib.metadata import version
from pathlib import Path
from typing import Any, Awaitable, Callable, Dict, List, Optional, Tuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import pottery
import redis
import redis.asyncio
from servers import REPOSITORY, Server

import quorumlock as ql

LEASE = 10
COMPARE_AND_DELETE = (
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
)
Pair = Callable[[str], None]
APair = Callable[[str], Awaitable[None]]
CLIENTS = ["quorumlock", "redis-py Lock", "pottery", "raw SET NX"]


def sync_pairs(urls: List[str]) -> Dict[str, Pair]:
    """What each client does for a pair, in a thread."""
    locker = quorumlock(urls)
    clients = [redis.Redis.from_url(url) for url in urls]
    scripts = [client.register_script(COMPARE_AND_DELETE) for client in clients]

    def ours(name: str) -> None:
        with locker.lock(name):
            pass

    def theirs(name: str) -> None:
        with clients[0].lock(name, timeout=LEASE):
            pass

    def potterys(name: str) -> None:
        with pottery.Redlock(key=name, masters=set(clients), auto_release_time=LEASE):
            pass

    def raw(name: str) -> None:
        mine = uuid.uuid4().hex
        granted = [bool(client.set(name, mine, nx=True, px=LEASE * 1000)) for client in clients]
        assert sum(granted) > len(clients) // 2
        for script in scripts:
            script(keys=[name], args=[mine])

    pairs = {"quorumlock": ours, "redis-py Lock": theirs, "pottery": potterys, "raw SET NX": raw}
    if len(urls) > 1:
        del pairs["redis-py Lock"]
    return pairs


def async_pairs(urls: List[str]) -> Dict[str, APair]:
    """What each client does for a pair, in a task."""
    locker = quorumlock(urls)
    clients = [redis.asyncio.Redis.from_url(url) for url in urls]
    scripts = [client.register_script(COMPARE_AND_DELETE) for client in clients]

    async def ours(name: str) -> None:
        async with locker.lock(name):
            pass

    async def theirs(name: str) -> None:
        async with clients[0].lock(name, timeout=LEASE):
            pass

    async def potterys(name: str) -> None:
        async with pottery.AIORedlock(key=name, masters=set(clients), auto_release_time=LEASE):
            pass

    async def raw(name: str) -> None:
        mine = uuid.uuid4().hex
        sets = [client.set(name, mine, nx=True, px=LEASE * 1000) for client in clients]
        granted = await asyncio.gather(*sets)
        assert sum(map(bool, granted)) > len(clients) // 2
        await asyncio.gather(*[script(keys=[name], args=[mine]) for script in scripts])

    pairs: Dict[str, APair] = {
        "quorumlock": ours,
        "redis-py Lock": theirs,
        "pottery": potterys,
        "raw SET NX": raw,
    }
    if len(urls) > 1:
        del pairs["redis-py Lock"]
    return pairs


def quorumlock(urls: List[str]) -> ql.Locker:
    # Servers of a moment ago: nobody has to prove a memory, as with the peers.
    plain = {"admission": "redlock"} if len(urls) > 1 else {}
    return ql.Locker(ql.Servers(",".join(urls)), lease=LEASE, **plain)  # type: ignore[arg-type]


def fresh() -> str:
    return f"bench/{uuid.uuid4().hex}"


def alone(pair: Pair, seconds: float) -> float:
    """Pairs a second of one thread: by the median of its times, which other programs move little."""
    times = []
    begin = end = time.perf_counter()
    while end < begin + seconds:
        before = time.perf_counter()
        pair(fresh())
        end = time.perf_counter()
        times.append(end - before)
    return 1 / statistics.median(times)


async def alone_in_a_loop(pair: APair, seconds: float) -> float:
    """As `alone`, of one task."""
    times = []
    begin = end = time.perf_counter()
    while end < begin + seconds:
        before = time.perf_counter()
        await pair(fresh())
        end = time.perf_counter()
        times.append(end - before)
    return 1 / statistics.median(times)


def in_threads(pair: Pair, workers: int, seconds: float) -> float:
    """Pairs a second."""
    if workers == 1:
        return alone(pair, seconds)
    counts = [0] * workers
    until = 0.0
    ready = threading.Barrier(workers + 1)

    def works(worker: int) -> None:
        pair(fresh())
        ready.wait()
        while time.perf_counter() < until:
            pair(fresh())
            counts[worker] += 1

    threads = [threading.Thread(target=works, args=(worker,)) for worker in range(workers)]
    until = time.perf_counter() + 3600
    for thread in threads:
        thread.start()
    ready.wait()
    begin = time.perf_counter()
    until = begin + seconds
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - begin)


async def in_tasks(pair: APair, workers: int, seconds: float) -> float:
    """Pairs a second."""
    if workers == 1:
        return await alone_in_a_loop(pair, seconds)
    counts = [0] * workers

    async def warm() -> None:
        await pair(fresh())

    async def works(worker: int, until: float) -> None:
        while time.perf_counter() < until:
            await pair(fresh())
            counts[worker] += 1

    await asyncio.gather(*[warm() for _ in range(workers)])
    begin = time.perf_counter()
    await asyncio.gather(*[works(worker, begin + seconds) for worker in range(workers)])
    return sum(counts) / (time.perf_counter() - begin)


Cell = Tuple[str, int, int]


def measure(rounds: int, seconds: float, servers: List[Server]) -> Dict[Cell, Dict[str, float]]:
    cells: Dict[Cell, Dict[str, List[float]]] = {}
    for number in range(rounds):
        for count in (1, 5):
            urls = [server.url for server in servers[:count]]
            for workers in (1, 64):
                for kind in ("threads", "asyncio"):
                    cell = cells.setdefault((kind, count, workers), {})
                    for client, rate in turn(kind, urls, workers, seconds, number):
                        cell.setdefault(client, []).append(rate)
                        told = f"{kind}, {count} servers, {workers}: {client} {rate:,.0f}/s"
                        print(f"round {number + 1}: {told}", file=sys.stderr, flush=True)
    return {
        cell: {client: statistics.median(rates) for client, rates in clients.items()}
        for cell, clients in cells.items()
    }


def turn(
    kind: str, urls: List[str], workers: int, seconds: float, number: int
) -> List[Tuple[str, float]]:
    """Each client once. Another one begins in each round."""
    if kind == "threads":
        pairs = sync_pairs(urls)
        order = rotated(list(pairs), number)
        return [(client, in_threads(pairs[client], workers, seconds)) for client in order]

    async def all_of_them() -> List[Tuple[str, float]]:
        apairs = async_pairs(urls)
        order = rotated(list(apairs), number)
        return [(client, await in_tasks(apairs[client], workers, seconds)) for client in order]

    return asyncio.run(all_of_them())


def rotated(clients: List[str], by: int) -> List[str]:
    by %= len(clients)
    return clients[by:] + clients[:by]


def of_rust(program: Optional[str], urls: List[str]) -> Optional[float]:
    """Microseconds of a pair by the blocking API in Rust."""
    if program is None:
        return None
    times = [
        float(subprocess.run([program, "3000", *urls], check=True, capture_output=True).stdout)
        for _ in range(3)
    ]
    return statistics.median(times)


def table(cells: Dict[Cell, Dict[str, float]]) -> List[str]:
    lines = ["| pairs a second | " + " | ".join(CLIENTS) + " | over the best other |"]
    lines.append("|---" * (len(CLIENTS) + 2) + "|")
    for (kind, count, workers), rates in cells.items():
        what = {"threads": ("thread", "threads"), "asyncio": ("task", "tasks")}[kind]
        row = f"{workers} {what[workers > 1]}, {count} server{'s' * (count > 1)}"
        shown = [f"{rates[client]:,.0f}" if client in rates else "" for client in CLIENTS]
        best = max(rate for client, rate in rates.items() if client != CLIENTS[0])
        lines.append(f"| {row} | {' | '.join(shown)} | {rates[CLIENTS[0]] / best:.2f} x |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rust", help="the program of examples/pairs.rs")
    parser.add_argument("--page", type=Path, help="the page whose table is written anew")
    arguments = parser.parse_args()
    arguments.load = os.getloadavg()[0]
    servers = [Server() for _ in range(5)]
    try:
        cells = measure(arguments.rounds, arguments.seconds, servers)
        rust = {
            count: of_rust(arguments.rust, [server.url for server in servers[:count]])
            for count in (1, 5)
        }
    finally:
        for server in servers:
            server.close()
    text = "\n".join([*table(cells), "", *remarks(cells, rust, arguments)])
    print(text)
    if arguments.page is not None:
        write(arguments.page, text)


def remarks(
    cells: Dict[Cell, Dict[str, float]], rust: Dict[int, Optional[float]], arguments: Any
) -> List[str]:
    lines = []
    for count, of_pair in rust.items():
        if of_pair is not None:
            python = 1e6 / cells["threads", count, 1][CLIENTS[0]]
            servers = "one server" if count == 1 else f"{count} servers"
            lines.append(
                f"- A pair on {servers}, one thread: {python:.0f} us in Python, {of_pair:.0f} us in "
                f"Rust (`quorumlock::blocking`). Python costs {python - of_pair:.0f} us."
            )
    versions = f"redis-py {redis.__version__}, pottery {version('pottery')}"
    lines.append(
        f"- {platform.python_implementation()} {platform.python_version()}, {versions}; "
        f"{os.cpu_count()} processors, which clients and servers share; {arguments.rounds} rounds "
        f"of {arguments.seconds:g} s. Load before: {arguments.load:.1f}; other programs take from all."
    )
    return lines


def write(page: Path, text: str) -> None:
    begin, end = "<!-- Written by `make bench-python`. -->", "<!-- End of what it writes. -->"
    before, rest = page.read_text().split(begin)
    _, after = rest.split(end)
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}")


if __name__ == "__main__":
    main()
