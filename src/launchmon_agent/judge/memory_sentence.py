"""What the memory of the ranks really is, when their RSS looks as if it could not be. Pure.

A rank that maps the model's files counts every page of them that is in memory as its own RSS, and so does every other
rank: eight ranks at 83 % each are no trouble, and a host that seems to be full may be empty.
"""

from __future__ import annotations

from collections.abc import Sequence

from launchmon_agent.events import Host, Process
from launchmon_agent.judge.words import size

ALARMING = 0.6
"""Share of the host's memory from which on the sum of RSS frightens people."""


def memory_sentence(processes: Sequence[Process], host: Host | None, *, always: bool = False) -> str | None:
    """One or two sentences; None where the parts are not known, or the sum is unalarming and not ``always`` told."""
    ranks = [process for process in processes if process.role == "scheduler" and process.rss]
    if host is None or not host.memory_total or not ranks:
        return None
    if any(None in (rank.rss_anon, rank.rss_file, rank.rss_shmem) for rank in ranks):
        return None
    total = sum(rank.rss or 0 for rank in ranks)
    if not always and total <= ALARMING * host.memory_total:
        return None
    anon, file, shmem = (sum(getattr(rank, part) for rank in ranks) for part in ("rss_anon", "rss_file", "rss_shmem"))
    share = f"{100 * total / host.memory_total:.0f} % of the host's"
    beyond = "more than the host has" if total > host.memory_total else share
    parts = [f"RSS of the {len(ranks)} ranks adds up to {size(total)}, {beyond}: {size(anon)} are their own"]
    if file:
        largest = max(rank.rss_file or 0 for rank in ranks)
        parts.append(f"{size(file)} are pages of files (at most {size(largest)} in memory once, counted in each rank)")
    if shmem:
        parts.append(f"{size(shmem)} shared memory, counted likewise")
    sentence = "; ".join(parts) + "."
    if host.memory_available is not None:
        sentence += f" {size(host.memory_available)} of {size(host.memory_total)} are available."
    limit = host.cgroup_memory_limit
    if limit is not None and limit < host.memory_total:
        used = "" if host.cgroup_memory_used is None else f", of which {size(host.cgroup_memory_used)} are used"
        sentence += f" The container's limit is {size(limit)}{used}."
    return sentence
