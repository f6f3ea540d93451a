"""A mistake of the caller names the argument and what it must be."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import Any, Dict

import pytest

import quorumlock as ql
from quorumlock import _native, _options
from quorumlock.testing import MemoryServer

locker = MemoryServer().locker()


@pytest.mark.parametrize(
    "option, value, words",
    [
        ("lease", -1, ["lease", "at least 0"]),
        ("lease", 0.001, ["lease", "10ms", "max_lease"]),
        ("lease", 61, ["lease", "60s", "max_lease"]),
        ("lease", float("nan"), ["lease", "finite"]),
        ("lease", float("inf"), ["lease", "finite"]),
        ("lease", timedelta(seconds=-1), ["lease", "at least 0"]),
        ("wait", -0.1, ["wait", "at least 0"]),
        ("wait", 1e12, ["wait", "315360000s"]),
        ("hold_at_most", 0, ["hold_at_most", "10ms"]),
        ("label", "x" * 200, ["label", "128"]),
    ],
)
def test_values_out_of_bounds(option: str, value: Any, words: list[str]) -> None:
    with pytest.raises(ValueError) as error:
        locker.lock("x", **{option: value}).acquire()
    assert isinstance(error.value, ql.ConfigError) and not error.value.is_retryable
    assert all(word in str(error.value) for word in words), str(error.value)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"lease": "10"}, ["lease", "timedelta", "str"]),
        ({"lease": True}, ["lease", "bool"]),
        ({"wait": [1]}, ["wait", "list"]),
        ({"label": 7}, ["label", "str", "int"]),
        ({"owner": "me"}, ["owner", "Owner", "str"]),
        ({"fail_fast": 1}, ["fail_fast", "True or False", "int"]),
        ({"leese": 1}, ["no option 'leese'"]),
        ({"cancel_on_loss": "yes"}, ["cancel_on_loss", "str"]),
    ],
)
def test_values_of_another_type(options: Dict[str, Any], words: list[str]) -> None:
    with pytest.raises(TypeError) as error:
        locker.lock("x", **options)
    assert all(word in str(error.value) for word in words), str(error.value)


@pytest.mark.parametrize("names", [7, None, b"x", [1], ["a", 2], {"a": 1}.items()])
def test_names_of_another_type(names: Any) -> None:
    with pytest.raises(TypeError, match="names must be a str or several of them"):
        locker.lock(names)


@pytest.mark.parametrize(
    "names, word",
    [("", "empty"), ([], "name"), ("x" * 1025, "1024"), ("quorumlock:x", "quorumlock:")],
)
def test_bad_names(names: Any, word: str) -> None:
    with pytest.raises(ql.ConfigError, match=word):
        locker.lock(names).acquire()
    with pytest.raises(ql.ConfigError):
        locker.lock([f"a{number}" for number in range(33)]).acquire()


def test_other_arguments() -> None:
    for permits in (0, 257):
        with pytest.raises(ql.ConfigError, match="permits .* 1 to 256"):
            locker.semaphore("x", permits)
    with pytest.raises(TypeError, match="permits must be an int"):
        locker.semaphore("x", 2.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="name must be a str"):
        locker.rw_lock(["a", "b"])  # type: ignore[arg-type]
    with pytest.raises(ql.ConfigError, match="slot"):
        locker.semaphore("x", 2).force_release(-1)
    with pytest.raises(ql.ConfigError) as error:
        locker.resume("no ticket")
    assert error.value.problem == "BadTicket"
    with pytest.raises(TypeError, match="callback"):
        locker.lock("x").acquire().on_lost(7)  # type: ignore[arg-type]


def test_options_of_other_requests() -> None:
    with pytest.raises(TypeError, match="no option 'wait'"):
        locker.try_lock("x", wait=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="no option 'owner'"):
        locker.semaphore("x", 2).acquire(owner=ql.Owner())  # type: ignore[call-arg]
    with locker.lock("none", wait=None, lease=None, owner=None, label=None) as hold:
        hold.check()


def test_servers_and_options_of_a_locker() -> None:
    with pytest.raises(TypeError, match="urls must be several str"):
        ql.Locker.quorum("redis://r1")
    with pytest.raises(TypeError, match="servers must be Servers.*Locker.single"):
        ql.Locker("redis://r1")  # type: ignore[arg-type]
    with pytest.raises(ql.ConfigError, match="http://r1"):
        ql.Locker.single("http://r1")
    with pytest.raises(TypeError, match="no option 'leese'"):
        ql.Locker.single("redis://r1", leese=1)  # type: ignore[call-arg]
    with pytest.raises(ql.ConfigError, match="max_lease.*10ms"):
        ql.Locker.single("redis://r1", max_lease=0.001)
    with pytest.raises(ql.ConfigError, match="admission.*strict or redlock"):
        ql.Locker.single("redis://r1", admission="paxos")
    with pytest.raises(ql.ConfigError) as error:
        ql.Locker.quorum(["redis://r1", "redis://r2"], strict_order=True)
    assert error.value.problem == "DoesNotApply" and "strict_order" in str(error.value)
    with pytest.raises(TypeError, match="durable must be True or False"):
        ql.Locker.single("redis://r1", durable="yes")  # type: ignore[arg-type]
    with pytest.raises(ql.ConfigError, match="max_clock_drift|0.5"):
        ql.Locker.single("redis://r1", max_clock_drift=2.0)


def test_every_option_of_the_library_is_one_of_python() -> None:
    kinds = {name: kind for name, kind, _about in _native.option_kinds()}
    assert set(kinds) == set(_options._READ) == set(ql.LockerOptions.__annotations__)
    for name, kind in kinds.items():
        reader = _options._READ[name]
        assert (kind == "time") == (reader is _options.seconds), name
        assert (kind == "flag") == (reader is _options.flag), name


def test_servers_are_a_value_and_show_no_password() -> None:
    servers = ql.Servers("redis://user:secret@r1,redis://r2,redis://r3")
    assert "r1" in str(servers) and "secret" not in str(servers) + repr(servers)
    sentinel = ql.Servers.sentinel(["redis://s1", "redis://s2"], "mymaster")
    assert "mymaster" in str(sentinel)
    assert str(ql.Servers.replicated(["redis://r1", "redis://r2"])).startswith("replicated:")
    assert str(ql.Servers.cluster(["redis://r1"])).startswith("cluster:")
    with pytest.raises(ql.ConfigError):
        ql.Servers("")


def test_the_environment_has_servers_and_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUORUMLOCK_NODES", "redis://r1")
    monkeypatch.setenv("QUORUMLOCK_PREFIX", "app:")
    assert ql.Locker.from_env().mutex("x").name == "app:x"
    assert ql.Locker().mutex("x").name == "app:x"
    assert ql.Locker.from_env(prefix="web:").mutex("x").name == "web:x"
    monkeypatch.setenv("QUORUMLOCK_LEASE", "soon")
    with pytest.raises(ql.ConfigError) as error:
        ql.Locker.from_env()
    assert error.value.problem == "BadVariable" and "QUORUMLOCK_LEASE" in str(error.value)
    monkeypatch.delenv("QUORUMLOCK_NODES")
    with pytest.raises(ql.ConfigError):
        ql.Locker.from_env()


def test_errors_survive_a_pickle() -> None:
    held = locker.lock("pickled").acquire()
    with pytest.raises(ql.Busy) as busy:
        locker.lock("pickled", wait=0).acquire()
    held.unlock()
    copy = pickle.loads(pickle.dumps(busy.value))
    assert type(copy) is ql.Busy and (copy.name, str(copy)) == ("pickled", str(busy.value))
    with pytest.raises(ql.Lost) as lost:
        held.check()
    assert pickle.loads(pickle.dumps(lost.value)).reason is ql.LossReason.RELEASED


def test_errors_are_one_family() -> None:
    kinds = [ql.Busy, ql.Lost, ql.Unreachable, ql.Refused, ql.Closed, ql.ConfigError]
    assert all(issubclass(kind, ql.Error) for kind in kinds)
    assert issubclass(ql.ConfigError, ValueError)
    assert [kind.kind for kind in kinds] == [
        "busy",
        "lost",
        "unreachable",
        "refused",
        "closed",
        "config",
    ]


def test_a_request_is_for_one_block() -> None:
    request = locker.lock("once")
    with request:
        with pytest.raises(RuntimeError, match="one for each block"):
            request.__enter__()
    with request:
        pass


def test_cancel_on_loss_is_for_asyncio() -> None:
    with pytest.raises(ql.ConfigError, match="cancel_on_loss"):
        locker.lock("x", cancel_on_loss=True).__enter__()
