"""All benches, one table: ``python -m tests.bench [--quick] [--only NAME…] [--output FILE]``.

Writes docs/performance-results.md, with the machine's description, unless it is told another file; docs/performance.md
explains the rows. It takes about 10 minutes and 3 GB of temporary space on two quiet cores, a sixth of it with --quick.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.bench import result
from tests.bench.result import Result

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
RESULTS = ROOT / "docs" / "performance-results.md"
PATIENCE_S = 900.0
"""For one bench."""


def benches() -> list[str]:
    return sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))


def measured(name: str, quick: bool) -> Iterator[Result | str]:
    """What one bench measures; a text where it could not, and why."""
    command = [sys.executable, "-m", f"tests.bench.bench_{name}", "--json", *(["--quick"] if quick else [])]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    child = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        out, err = child.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        child.kill()
        out, err = child.communicate()
        err += f"\nnot done after {PATIENCE_S:.0f} s"
    for line in out.splitlines():
        if line.startswith("{"):
            yield result.read(line)
    if child.returncode:
        yield f"{name}: {(err.strip().splitlines() or ['ended without a word'])[-1]}"


def machine() -> list[str]:
    """What the figures were measured on, without the name of it."""
    with open("/proc/cpuinfo") as cpuinfo:
        models = [line.partition(":")[2].strip() for line in cpuinfo if line.startswith("model name")]
    with open("/proc/meminfo") as meminfo:
        memory = int(meminfo.readline().split()[1]) / 2**20
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    busy = (
        [f"other programs ran beside it (load {load:.1f}): what is counted in time is too long"]
        if load > cores / 2
        else []
    )
    return [
        f"{os.cpu_count()} × {models[0] if models else platform.machine()}, {memory:.0f} GiB of memory",
        f"Linux {platform.release()}, Python {platform.python_version()}",
        f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}",
        *busy,
    ]


def document(described: Sequence[str], rows: Sequence[Result], problems: Sequence[str], quick: bool) -> str:
    head = [
        "# Performance: results",
        "",
        "Written by `python -m tests.bench`; [performance.md](performance.md) explains the rows.",
        "",
        *(f"- {line}" for line in described),
        *(["- measured with `--quick`: fewer and shorter samples"] if quick else []),
        "",
        "| what | measured | budget | beside it, in the same run |",
        "|---|---:|---|---|",
    ]
    body = ["| " + " | ".join(cell.strip() for cell in result.cells(one)) + " |" for one in rows]
    tail = ["", "Not measured:", "", *(f"- {problem}" for problem in problems)] if problems else []
    return "\n".join([*head, *body, *tail]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter samples")
    parser.add_argument("--only", nargs="+", choices=benches(), help="these benches only")
    parser.add_argument("--output", type=Path, default=RESULTS, help="the file to write")
    given = parser.parse_args()
    described = machine()
    rows: list[Result] = []
    problems: list[str] = []
    for name in given.only or benches():
        began = time.monotonic()
        for one in measured(name, given.quick):
            if isinstance(one, Result):
                rows.append(one)
                print(result.row(one), flush=True)
            else:
                problems.append(one)
                print(one, flush=True)
        print(f"-- {name}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    given.output.write_text(document(described, rows, problems, given.quick))
    missed = sum(one.kept is False for one in rows)
    print(f"{len(rows)} values, {missed} over budget, {len(problems)} not measured: {given.output}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
