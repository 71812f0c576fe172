"""Memory that looks like too much."""

from __future__ import annotations

import pytest

from launchmon_agent.events import Host, Process
from launchmon_agent.judge.memory_sentence import memory_sentence

GIB = 1 << 30


def ranks(count: int, anon: float, file: float, shmem: float = 0.0) -> list[Process]:
    return [
        Process(
            pid=100 + number,
            start_time=0.0,
            role="scheduler",
            rank=f"TP{number}",
            rss_anon=int(anon * GIB),
            rss_file=int(file * GIB),
            rss_shmem=int(shmem * GIB),
        )
        for number in range(count)
    ]


def host(total: float = 1000, available: float | None = 940, **more: int) -> Host:
    return Host(0.0, memory_total=int(total * GIB), memory_available=available and int(available * GIB), **more)


def test_eight_ranks_with_the_same_file_pages_are_no_trouble() -> None:
    assert memory_sentence(ranks(8, 4, 826, 1), host()) == (
        "RSS of the 8 ranks adds up to 6.5 TiB, more than the host has: 32 GiB are their own; 6.5 TiB are pages"
        " of files (at most 826 GiB in memory once, counted in each rank); 8.0 GiB shared memory, counted likewise."
        " 940 GiB of 1000 GiB are available."
    )


def test_from_a_share_of_the_host_on_it_is_explained() -> None:
    assert memory_sentence(ranks(2, 1, 298), host()) is None
    sentence = memory_sentence(ranks(2, 1, 302), host())
    assert sentence is not None and "606 GiB, 61 % of the host's: 2.0 GiB" in sentence


def test_memory_that_is_really_used_is_not_talked_away() -> None:
    sentence = memory_sentence(ranks(8, 110, 0), host(available=20))
    assert sentence is not None
    assert ": 880 GiB are their own." in sentence and "pages of files" not in sentence
    assert sentence.endswith("20 GiB of 1000 GiB are available.")


def test_a_containers_limit_is_named() -> None:
    limited = host(cgroup_memory_limit=200 * GIB, cgroup_memory_used=150 * GIB)
    sentence = memory_sentence(ranks(8, 4, 826), limited)
    assert sentence is not None
    assert sentence.endswith("The container's limit is 200 GiB, of which 150 GiB are used.")
    without = memory_sentence(ranks(8, 4, 826), host(available=None, cgroup_memory_limit=200 * GIB))
    assert without is not None and without.endswith("in each rank). The container's limit is 200 GiB.")


@pytest.mark.parametrize(
    "processes, machine",
    [
        (ranks(8, 4, 826), None),
        (ranks(8, 4, 826), Host(0.0)),
        ([], host()),
        ([Process(1, 0.0, "scheduler", rss_anon=900 * GIB)], host()),
        ([Process(1, 0.0, "scheduler", state="Z")], host()),
        ([Process(1, 0.0, "detokenizer", rss_anon=900 * GIB, rss_file=0, rss_shmem=0)], host()),
    ],
    ids=["no host", "unknown total", "no ranks", "unknown parts", "zombie", "no rank"],
)
def test_what_is_not_known_is_not_explained(processes: list[Process], machine: Host | None) -> None:
    assert memory_sentence(processes, machine) is None
