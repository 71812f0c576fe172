"""Process titles and command lines → what a process of a run is, and which rank. Pure.

SGLang names its processes with setproctitle, but only after a child's imports (10–40 s); until then a child is known by
its place among its siblings. Forms, over the 37 releases from 0.2.15 to 0.5.23:

=============  =====================================================================================================
releases       title of a scheduler
=============  =====================================================================================================
up to 0.4.0    none: it keeps the command line of ``multiprocessing.spawn``
0.4.1–0.4.2    ``sglang::scheduler`` for every rank
0.4.3          ``sglang::scheduler_<dp rank>``; ``sglang::scheduler_None`` without data parallelism
0.4.4–0.4.5    ``sglang::scheduler_DP0_TP1``, TP always
0.4.6 on       the same with PP, EP, ATTN_CP and MOE_DP, each only where its size is above one; none at all for one rank
=============  =====================================================================================================

Children of the launcher start in this order: schedulers by (PP, TP), DP controller, detokenizer. With data parallelism
the schedulers are the controller's children instead; with attention DP they are the launcher's again from 0.5.22.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from launchmon_agent.sglang.command import parse
from launchmon_agent.sglang.ranks import SINGLE

LAUNCHER = "launcher"
SCHEDULER = "scheduler"
DETOKENIZER = "detokenizer"
DP_CONTROLLER = "dp-controller"
TOKENIZER = "tokenizer"
SPAWNING = "spawning"
HELPER = "helper"

_TAG = re.compile(r"_([A-Z][A-Z_]*?)(\d{1,9})")
_SCHEDULER = re.compile(r"sglang::scheduler(?P<tags>(?:_[A-Z][A-Z_]*?\d{1,9})*)")
_SCHEDULER_0_4_3 = re.compile(r"sglang::scheduler_(?:(?P<dp>\d{1,9})|None)")
_OTHERS = (
    (re.compile(r"sglang::detokenizer(_router)?"), DETOKENIZER),
    (re.compile(r"sglang::data_parallel_controller"), DP_CONTROLLER),
    (re.compile(r"sglang::tokenizer_worker:\d{1,9}"), TOKENIZER),
    (re.compile(r"sglang::(http_server/\w+|server)"), LAUNCHER),  # 0.5.2; a server that sglang-router started
    (re.compile(r"sglang::\S+"), HELPER),
)
_COMMS = (
    # comm is cut to 15 bytes, and all that is left of a zombie
    ("sglang::schedul", SCHEDULER),
    ("sglang::detoken", DETOKENIZER),
    ("sglang::data_pa", DP_CONTROLLER),
    ("sglang::tokeniz", TOKENIZER),
)
_SPAWN_MAIN = ("from multiprocessing.spawn import spawn_main", "from multiprocessing.forkserver import main")
_TRACKER = re.compile(r"from multiprocessing\.(resource_tracker|semaphore_tracker) import main")


@dataclass(frozen=True)
class Title:
    """What a title or command line says by itself."""

    role: str  # as in events.Process
    text: str  # fit for the screen, without arguments (they may hold keys)
    rank: str | None = None  # "DP1 TP0"; None: the title does not say
    coordinates: dict[str, int] = field(default_factory=dict)  # {"DP": 1, "TP": 0}, also where they are no whole rank


@dataclass(frozen=True)
class Name:
    """What a process is, with the help of its siblings."""

    role: str
    rank: str | None = None
    named_by: str | None = None  # title | order, of ranks


def read_title(argv: Sequence[str], comm: str = "") -> Title | None:
    """None: no process that SGLang or multiprocessing names. ``argv`` of a zombie is empty: then ``comm`` is read."""
    if not argv:
        role = next((role for prefix, role in _COMMS if comm.startswith(prefix)), None)
        return None if role is None else Title(role, comm)
    first = argv[0].strip()
    if first.startswith("sglang::"):
        return _sglang_title(first)
    words = argv[1:] or first.split(" -c ", 1)[1:]  # the first setproctitle shows all in one word for a moment
    for word in words:
        if word.startswith(_SPAWN_MAIN):
            return Title(SPAWNING, "multiprocessing child")
        if _TRACKER.match(word):
            return Title(HELPER, "resource_tracker")
    return _launcher(argv)


@functools.lru_cache(maxsize=4096)
def coordinates(rank: str) -> Mapping[str, int]:
    """``"DP1 TP0"`` → ``{"DP": 1, "TP": 0}``. Kept: the same few tags are asked for each second."""
    return MappingProxyType({name: int(number) for name, number in _TAG.findall("_" + rank.replace(" ", "_"))})


def _sglang_title(title: str) -> Title:
    scheduler = _SCHEDULER.fullmatch(title)
    if scheduler:
        tags = _TAG.findall(scheduler["tags"])
        rank = " ".join(name + number for name, number in tags) or None
        return Title(SCHEDULER, title, rank, {name: int(number) for name, number in tags})
    old = _SCHEDULER_0_4_3.fullmatch(title)
    if old:
        return Title(SCHEDULER, title, None, {} if old["dp"] is None else {"DP": int(old["dp"])})
    role = next((role for pattern, role in _OTHERS if pattern.fullmatch(title)), HELPER)
    return Title(role, title)


def _launcher(argv: Sequence[str]) -> Title | None:
    command = parse(argv)
    if not command.is_server_process:
        return None
    named = {"module": f"python -m {command.module}", "serve": "sglang serve"}
    return Title(LAUNCHER, named.get(command.entry or "", "sglang/launch_server.py"))


# ------------------------------------------------------------------------------------------------------ naming by order


def name_children(parent: str, children: Sequence[Title | Name], expected: Sequence[str]) -> list[Name]:
    """Name the multiprocessing children of the launcher or the DP controller (``parent``: its role).

    ``children`` in start order, all that were ever seen: a :class:`Name` stands for one that has ended and keeps its
    name. ``expected``: the ranks of this node in start order (:func:`~launchmon_agent.sglang.ranks.expected_ranks`);
    empty while the sizes are unknown. Titles are believed over places.
    """
    free = _places(parent, children, expected)
    named = [_take(child, free) for child in children]
    return [name or _place(children, index, free, expected) for index, name in enumerate(named)]


def _places(parent: str, children: Sequence[Title | Name], expected: Sequence[str]) -> list[Name]:
    """What the children should be, in start order. Empty where it cannot be told yet."""
    schedulers = [Name(SCHEDULER, rank, "order") for rank in expected]
    if parent == DP_CONTROLLER or not expected:
        return schedulers
    controller, detokenizer = Name(DP_CONTROLLER), Name(DETOKENIZER)
    if not any("DP" in coordinates(rank) for rank in expected):
        return [*schedulers, detokenizer]
    if len(children) > 2 and _attention_dp(expected):
        return [*schedulers, controller, detokenizer]
    first_is_controller = bool(children) and children[0].role == DP_CONTROLLER
    if first_is_controller or not _attention_dp(expected):
        return [controller, detokenizer]
    return []


def _attention_dp(expected: Sequence[str]) -> bool:
    """With attention DP the TP numbers go on over the groups; replicas count them from zero each."""
    numbers = [coordinates(rank).get("TP") for rank in expected]
    return None not in numbers and len(set(numbers)) == len(numbers)


def _take(child: Title | Name, free: list[Name]) -> Name | None:
    """The name of a child that has one by itself; its place is then no longer free."""
    if isinstance(child, Name):
        name = child
    elif child.role == SPAWNING or (child.role == SCHEDULER and child.rank is None):
        return None
    else:
        name = Name(child.role, child.rank, "title" if child.rank else None)
    taken = coordinates(name.rank or "").items()
    for place in free:
        fits = place.role == name.role and coordinates(place.rank or "").items() <= taken
        if fits or (name.rank is not None and place.rank == name.rank):
            free.remove(place)
            break
    return name


def _place(children: Sequence[Title | Name], index: int, free: list[Name], expected: Sequence[str]) -> Name:
    """The first free place that fits a child without a name of its own."""
    child = children[index]
    if child.role == SPAWNING:
        if not free:
            return Name(SPAWNING)
        place = free.pop(0)
        return Name(SPAWNING, place.rank, "order") if place.role == SCHEDULER else Name(place.role, None, "order")
    known = child.coordinates.items() if isinstance(child, Title) else ()
    for place in free:
        if place.role == SCHEDULER and all(coordinates(place.rank or "").get(name) == value for name, value in known):
            free.remove(place)
            return Name(SCHEDULER, place.rank, "title" if len(expected) == 1 else "order")
    if sum(other.role == SCHEDULER for other in children) == 1:
        return Name(SCHEDULER, SINGLE, "title")
    before = sum(other.role == SCHEDULER for other in children[:index])
    return Name(SCHEDULER, f"TP{before}", "order")
