"""Runs at the start of every interpreter of the test server: lets SGLang start without CUDA, and can wedge one rank.

torchvision
    Its extension is linked against CUDA and does not load beside a CPU build of torch. The two operators that its
    Python code then misses are declared (never implemented: nothing here calls them) just before its first import.

garbage collection
    Is rarer: a sixth of what it takes to import SGLang went into it, in each of a server's four processes or more.

LAUNCHMON_RIG_STUCK=<end of title>:<module>:<attribute>[:<how>]
    In the process whose title ends so, the function misbehaves as soon as it is called:
    ``sleep`` (the default) for ever, ``spin`` on the CPU, ``lock``: wait for a lock that nobody gives back, ``socket``:
    read from one that nobody writes to, ``raise``, or ``kill`` itself. A rank that never finishes loading its weights:

        TP1:sglang.srt.model_loader.loader:DefaultModelLoader.load_model:lock
"""

from __future__ import annotations

import functools
import gc
import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Callable
from typing import Any


class BeforeImport(importlib.abc.MetaPathFinder):
    """Calls ``do()`` once, just before ``module`` is imported for the first time."""

    def __init__(self, module: str, do: Callable[[], None]) -> None:
        self.module = module
        self.do = do

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == self.module:
            sys.meta_path.remove(self)
            self.do()


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls ``do(module)`` once, just after ``module`` was imported for the first time."""

    def __init__(self, module: str, do: Callable[[Any], None]) -> None:
        self.module = module
        self.do = do

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self.module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            self.do(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def declare_torchvision_operators() -> None:
    import torch

    library = torch.library.Library("torchvision", "DEF")
    for operator in ("nms", "qnms"):
        library.define(operator + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    torch.launchmon_rig = library  # the operators live as long as this object


def sleep() -> None:
    import time

    while True:
        time.sleep(3600)


def spin() -> None:
    while True:
        pass


def lock() -> None:
    import threading

    held = threading.Lock()
    held.acquire()
    held.acquire()


def socket() -> None:
    import socket

    here, _there = socket.socketpair()
    here.recv(1)


def fail() -> None:
    raise RuntimeError("rig: this rank was told to fail here")


def kill() -> None:
    import signal

    os.kill(os.getpid(), signal.SIGKILL)


WAYS: dict[str, Callable[[], None]] = {
    "sleep": sleep,
    "spin": spin,
    "lock": lock,
    "socket": socket,
    "raise": fail,
    "kill": kill,
}


def wedge(suffix: str, attribute: str, misbehave: Callable[[], None], module: Any) -> None:
    """Replaces ``module.attribute`` (dots allowed) by one that misbehaves where the title ends in ``suffix``."""
    *owners, last = attribute.split(".")
    owner = functools.reduce(getattr, owners, module)
    original = getattr(owner, last)

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        import setproctitle

        if setproctitle.getproctitle().rstrip("\0 ").endswith(suffix):
            misbehave()
        return original(*args, **kwargs)

    setattr(owner, last, wrapper)


def install(order: str | None) -> None:
    gc.set_threshold(100_000, 50, 100)
    sys.meta_path.insert(0, BeforeImport("torchvision", declare_torchvision_operators))
    if order:
        suffix, module, attribute, *how = order.split(":")
        misbehave = WAYS[how[0] if how else "sleep"]
        sys.meta_path.insert(0, AfterImport(module, functools.partial(wedge, suffix, attribute, misbehave)))


install(os.environ.get("LAUNCHMON_RIG_STUCK"))
