"""64 ranks on 8 nodes as one model: folding, judging, sending. ``python -m tests.bench --only cluster``"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from itertools import groupby

from launchmon.cluster.model import ClusterModel
from launchmon_agent.codec import encode
from launchmon_agent.judge.verdict import judge
from launchmon_agent.judge.window import EvidenceWindow
from tests.bench.result import Result, run
from tests.support.story import T0, Story

NODES, RANKS = 8, 64
BUDGET_MS = 50.0


def results(quick: bool) -> Iterator[Result]:
    seconds = 60 if quick else 120
    stories = [
        Story(tp=RANKS, nnodes=NODES, node_rank=node, address="10.0.0.1:20000").up_to("kv-pool").quiet(31).play(seconds)
        for node in range(NODES)
    ]
    events = sorted(
        ((event.at, node, event) for node, story in enumerate(stories) for event in story.events),
        key=lambda item: item[:2],
    )
    model, window = ClusterModel([f"gpu{node}" for node in range(NODES)]), EvidenceWindow()
    folds, judged = [], []
    for second, group in groupby(events, key=lambda item: int(item[0] - T0)):
        batch = list(group)
        began = time.process_time()
        for _, node, event in batch:
            model.fold_of(node, event)
        folds.append(time.process_time() - began)
        began = time.process_time()
        for _, _, event in batch:
            window.fold(event)
        judge(model, window, T0 + second)
        judged.append(time.process_time() - began)
    what = f"{RANKS} ranks on {NODES} nodes, a second of stream"
    assert len(model.rank_rows()) == RANKS
    yield Result(f"{what}: folded into one model", 1000 * sum(folds) / len(folds), "ms")
    yield Result(f"{what}: judged as a whole", 1000 * sum(judged) / len(judged), "ms", BUDGET_MS)
    began = time.process_time()
    rail = model.phases.rail(model.now)
    yield Result(f"{RANKS} ranks: the phases of all, once", 1000 * (time.process_time() - began), "ms")
    assert rail
    size = sum(len(encode(event)) for _, node, event in events if node == 0 and event.at - T0 > 40)
    yield Result("one node of 8 ranks, on the wire before compression", size / (seconds - 40) / 1024, "KiB/s")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield Result(f"{RANKS} ranks for {seconds} s: memory with all events kept", memory, "MiB")


if __name__ == "__main__":
    run(results)
