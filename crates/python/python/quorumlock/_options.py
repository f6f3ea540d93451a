"""Arguments: their types, and what is said of wrong ones."""

from __future__ import annotations

import math
import os
from datetime import timedelta
from typing import Any, Callable, Dict, FrozenSet, Iterable, List, Mapping, Optional, TypedDict
from typing import Union

from ._errors import ConfigError
from ._native import Owner

Duration = Union[float, timedelta]
"""Seconds, or a `timedelta`."""


class TryPermitOptions(TypedDict, total=False):
    """The options of a request for a permit that does not wait. None stands for the default."""

    lease: Optional[Duration]
    """How long the servers keep it without a renewal. Default: that of the locker."""
    hold_at_most: Optional[Duration]
    """Ends the hold after this time. Default: that of the locker."""
    hold_at_least: Optional[Duration]
    """Keeps the hold for this time, though the block ends sooner. Default: no time."""
    label: Optional[str]
    """Who holds it, for people who ask. Default: that of the locker."""
    cancel_on_loss: bool
    """Whether a loss cancels the block of `async with`, which then raises `Lost`. Default: no."""


class PermitOptions(TryPermitOptions, total=False):
    """The options of a request for a permit that waits."""

    wait: Optional[Duration]
    """How long it waits before it raises `Busy`. Default: for ever."""
    fail_fast: bool
    """Whether the first attempt that fails ends the call. Default: it tries for `wait`, or 30 s."""


class TryLockOptions(TryPermitOptions, total=False):
    """The options of a request for a lock that does not wait."""

    owner: Optional[Owner]
    """Who enters: the same owner enters a lock that it holds. Default: nobody holds it already."""


class LockOptions(PermitOptions, TryLockOptions, total=False):
    """The options of a request for a lock that waits."""


class LockerOptions(TypedDict, total=False):
    """The options of a locker: those of the table in docs/GUIDE.md, with the same names."""

    password_file: Union[str, os.PathLike[str]]
    credentials_command: str
    tls_ca: Union[str, os.PathLike[str]]
    tls_cert: Union[str, os.PathLike[str]]
    tls_key: Union[str, os.PathLike[str]]
    tls_server_name: str
    connect_timeout: Duration
    answer_timeout: Duration
    client_name: str
    admission: str
    max_lease: Duration
    clock_bound: Duration
    max_clock_drift: float
    tolerate_lost_marks: int
    prefix: str
    lease: Duration
    hold_at_most: Duration
    long_hold: Duration
    takeover_delay: Duration
    label: str
    layout: str
    fencing: bool
    redisson_fenced: bool
    strict_order: bool
    replicas: Union[int, str]
    durable: bool
    replica_timeout: Duration
    scripts_only: bool
    names_in_spans: bool


def seconds(what: str, value: Duration) -> float:
    """The seconds of a duration."""
    if isinstance(value, timedelta):
        time = value.total_seconds()
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        time = float(value)
    else:
        raise _not(what, "a number of seconds or a timedelta", value)
    if not math.isfinite(time) or time < 0:
        raise ConfigError(f"{what} is {time} s: it must be a finite number of seconds, at least 0")
    return time


def text(what: str, value: str) -> str:
    """A text."""
    if not isinstance(value, str):
        raise _not(what, "a str", value)
    return value


def flag(what: str, value: bool) -> bool:
    """Yes or no."""
    if not isinstance(value, bool):
        raise _not(what, "True or False", value)
    return value


def number(what: str, value: int, least: int, most: int) -> int:
    """A whole number within bounds."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise _not(what, "an int", value)
    if not least <= value <= most:
        raise ConfigError(f"{what} is {value}: it must be {least} to {most}")
    return value


def names(value: Union[str, Iterable[str]]) -> Union[str, List[str]]:
    """One name, or several."""
    if isinstance(value, str):
        return value
    wanted = "a str or several of them"
    try:
        several = list(value)
    except TypeError:
        raise _not("names", wanted, value) from None
    for name in several:
        if not isinstance(name, str):
            raise _not("names", wanted, value)
    return several


def urls(value: Iterable[str]) -> List[str]:
    """Several URLs. A text is none: its letters are no servers."""
    if isinstance(value, str):
        raise _not("urls", "several str, such as a list", value)
    several = list(value)
    for url in several:
        text("urls", url)
    return several


def _file(what: str, value: Union[str, os.PathLike[str]]) -> str:
    if not isinstance(value, (str, os.PathLike)):
        raise _not(what, "a path", value)
    return os.fspath(value)


def _count(what: str, value: int) -> int:
    return number(what, value, 0, 2**32 - 1)


def _fraction(what: str, value: float) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise _not(what, "a number", value)
    return value


def _replicas(what: str, value: Union[int, str]) -> Union[int, str]:
    return value if value == "all" else _count(what, value)  # type: ignore[arg-type]


_READ: Dict[str, Callable[[str, Any], Any]] = {
    "password_file": _file,
    "credentials_command": text,
    "tls_ca": _file,
    "tls_cert": _file,
    "tls_key": _file,
    "tls_server_name": text,
    "connect_timeout": seconds,
    "answer_timeout": seconds,
    "client_name": text,
    "admission": text,
    "max_lease": seconds,
    "clock_bound": seconds,
    "max_clock_drift": _fraction,
    "tolerate_lost_marks": _count,
    "prefix": text,
    "lease": seconds,
    "hold_at_most": seconds,
    "long_hold": seconds,
    "takeover_delay": seconds,
    "label": text,
    "layout": text,
    "fencing": flag,
    "redisson_fenced": flag,
    "strict_order": flag,
    "replicas": _replicas,
    "durable": flag,
    "replica_timeout": seconds,
    "scripts_only": flag,
    "names_in_spans": flag,
}


def of_locker(options: Mapping[str, Any]) -> Dict[str, Any]:
    """The options of a locker, as the native module takes them."""
    read = {}
    for what, value in options.items():
        reader = _READ.get(what)
        if reader is None:
            raise TypeError(f"a locker has no option {what!r}")
        read[what] = reader(what, value)
    return read


def _owner(what: str, value: Owner) -> Owner:
    if not isinstance(value, Owner):
        raise _not(what, "an Owner", value)
    return value


_READ_REQUEST: Dict[str, Callable[[str, Any], Any]] = {
    "wait": seconds,
    "lease": seconds,
    "hold_at_most": seconds,
    "hold_at_least": seconds,
    "label": text,
    "owner": _owner,
    "fail_fast": flag,
    "cancel_on_loss": flag,
}

PERMIT = frozenset(PermitOptions.__annotations__)
TRY_PERMIT = frozenset(TryPermitOptions.__annotations__)
LOCK = frozenset(LockOptions.__annotations__)
TRY_LOCK = frozenset(TryLockOptions.__annotations__)


def of_request(options: Mapping[str, Any], known: FrozenSet[str]) -> Dict[str, Any]:
    """The options of a request, as the native module takes them, and `cancel_on_loss`."""
    read = {}
    for what, value in options.items():
        if what not in known:
            raise TypeError(f"this request has no option {what!r}")
        if value is not None:
            read[what] = _READ_REQUEST[what](what, value)
    return read


def _not(what: str, wanted: str, value: object) -> TypeError:
    return TypeError(f"{what} must be {wanted}, not {type(value).__name__}")
