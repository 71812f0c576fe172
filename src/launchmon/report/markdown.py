"""A report as Markdown for an issue: what happened first, then what one asks for next. Pure.

Text of others (log lines, frames, commands) stands in fences that nothing in it can close.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator, Sequence

from launchmon import __version__
from launchmon.diagnosis import diagnosis
from launchmon.format import duration, plural, size
from launchmon.redact import told
from launchmon.report.gather import Excerpt, Material
from launchmon.text import gpu_lines, ledger_text, rank_lines
from launchmon_agent.events import Next, Run
from launchmon_agent.model import RunModel
from launchmon_agent.sglang.secrets import HIDDEN
from launchmon_agent.stacks.merge import merge
from launchmon_agent.stacks.render import text as stacks_text

MOST = 60_000
"""Characters: an issue on GitHub holds 65,536."""

STACKS_MOST = 16_000
LOG_MOST = 24_000

_RUNS = re.compile("`+")


def markdown(material: Material, archive: str | None = None) -> str:
    """Ends with a newline. ``archive``: the name of the file with the recording."""
    model = material.model
    sections = [
        _title(material),
        _verdict(material),
        _versions(material),
        _hardware(material.whole),
        _command(model.run),
        _phases(model),
        _ranks(material),
        _stacks(model),
        _log(material),
        _attempts(material),
        _notices(model),
        _hidden(material, archive),
    ]
    return _bounded([list(section) for section in sections])


def stacks(model: RunModel) -> str:
    """All dumps that the recording holds, as ``launchmon dump`` prints them, oldest first."""
    parts = []
    for place, dump in enumerate(model.stacks):
        parts.append(stacks_text(merge(dump, model.stacks[:place]), whole=True, threads=True))
    return ("\n" + 78 * "=" + "\n\n").join(parts) or "No stacks were read.\n"


def fenced(lines: Sequence[str], language: str = "text") -> list[str]:
    """A block whose fence is longer than any row of backticks in it."""
    longest = max((len(run) for line in lines for run in _RUNS.findall(line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", *lines, fence]


def coded(text: str) -> str:
    """Text in a sentence, as code: nothing in it is Markdown or HTML."""
    flat = " ".join(text.split())
    runs = [len(run) for run in _RUNS.findall(flat)]
    fence = "`" * (max(runs, default=0) + 1)
    pad = " " if runs or not flat else ""
    return f"{fence}{pad}{flat}{pad}{fence}"


def plain(text: str) -> str:
    """Text in a sentence, in which nothing becomes markup, a link or a mention."""
    flat = " ".join(text.split())
    return re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", flat).replace("@", "@\u200b")


# ------------------------------------------------------------------------------------------------------------- sections


def _title(material: Material) -> Iterator[str]:
    run, verdict = material.model.run, material.verdict
    name = "run" if run is None else run.name or (run.model or "").rstrip("/").rpartition("/")[2] or run.id
    yield f"# {plain(name)}: {'no verdict' if verdict is None else verdict.verdict}"
    if run is not None and run.simulated:
        yield "\n> **Simulated**: this is a demo of launchmon. No GPU and no model is used."


def _verdict(material: Material) -> Iterator[str]:
    verdict, last = material.verdict, material.model.verdict
    if verdict is None:
        return
    if last is not None and last.verdict != verdict.verdict:
        yield f"Before it was ended ({plain(last.summary)}):\n"
    yield f"**{verdict.verdict}** ({verdict.confidence} confidence): {plain(verdict.summary)}"
    yield ""
    if verdict.blames:
        yield f"- blames: {', '.join(map(coded, verdict.blames))}"
    yield from (f"- {plain(item.what)}: {plain(item.value)}" for item in verdict.evidence)
    yield from (f"- ruled out: {item.kind}: {plain(item.because)}" for item in verdict.ruled_out)
    yield from (f"- not known: {plain(text)}" for text in verdict.unknown)
    yield from (f"- next: {_step(step)}" for step in verdict.next)


def _step(step: Next) -> str:
    """Sources as code: the name of an issue as text would leave a mark on that issue."""
    words = " ".join(part for part in (step.do, coded(" ".join(step.change)) if step.change else "") if part)
    return words + (f": {plain(step.why)}" if step.why else "") + (f" ({coded(step.source)})" if step.source else "")


def _versions(material: Material) -> Iterator[str]:
    model = material.model
    known: dict[str, str] = {"launchmon": __version__}
    if model.run is not None and model.run.engine_version:
        known["sglang"] = model.run.engine_version
    known.update(material.software)
    python = next((stack.python for dump in model.stacks for stack in dump.stacks if stack.python), None)
    if python:
        known.setdefault("python", python)
    if model.gpus is not None and model.gpus.driver:
        known["NVIDIA driver"] = model.gpus.driver
    if model.ras is not None and model.ras.nccl:
        known.setdefault("NCCL", model.ras.nccl)
    order = ("launchmon", "sglang", "python", "torch", "cuda", "hip", "NVIDIA driver", "NCCL")
    names = [*(name for name in order if name in known), *sorted(known.keys() - set(order))]
    yield "## Versions\n"
    yield from (f"- {name}: {plain(known[name])}" for name in names)
    missing = [name for name in ("sglang", "torch") if name not in known]
    if missing:
        yield f"- not known: {', '.join(missing)}"


def _hardware(model: RunModel) -> Iterator[str]:
    yield "## Hardware\n"
    gpus, host = model.gpus, model.host
    if gpus is None or not gpus.gpus:
        yield f"- GPUs: none known{'' if gpus is None or not gpus.error else f' ({plain(gpus.error)})'}"
    else:
        models: dict[str, int] = {}
        for gpu in gpus.gpus:
            name = f"{gpu.name or 'GPU'}, {size(gpu.memory_total)}B"
            models[name] = models.get(name, 0) + 1
        simulated = ", simulated" if gpus.source == "simulated" else ""
        yield from (f"- GPUs: {count} × {plain(name)}{simulated}" for name, count in models.items())
    if host is not None:
        memory = f"memory {size(host.memory_available)} of {size(host.memory_total)} free"
        yield f"- host: {_known(host.cpus)} CPUs, {memory}"
        yield f"- /dev/shm: {size(host.shm_used)} of {size(host.shm_total)} used; swap used: {size(host.swap_used)}"
        if host.cgroup_memory_limit is not None:
            memory = f"memory {size(host.cgroup_memory_used)} of {size(host.cgroup_memory_limit)}"
            yield f"- cgroup: {memory}, OOM kills {_known(host.cgroup_oom_kills)}"
        yield from (f"- file system of {what}: {plain(kind)}" for what, kind in host.filesystems.items())
    if gpus is not None and gpus.gpus:
        yield ""
        yield from fenced(gpu_lines(diagnosis(model, None, "")["gpus"]))


def _command(run: Run | None) -> Iterator[str]:
    yield "## Command\n"
    if run is None or not run.argv:
        yield "Not known."
        return
    yield from fenced([shlex.join(run.argv).replace(shlex.quote(HIDDEN), HIDDEN)], "sh")
    if run.variables:
        yield "\nVariables that explain something:\n"
        yield from fenced([f"{name}={value}" for name, value in sorted(run.variables.items())], "sh")
    if run.preparations:
        yield "\nSet by launchmon:\n"
        yield from (f"- {plain(text)}" for text in run.preparations)
    if not run.launched:
        yield "\nStarted by somebody else; launchmon watched it."


def _phases(model: RunModel) -> Iterator[str]:
    yield "## Phases\n"
    yield "| phase | state | began after | took | slowest |"
    yield "|---|---|---|---|---|"
    begin = None if model.run is None else model.run.start_time
    for cell in model.phases.rail(model.now):
        after = "–" if cell.begin is None or begin is None else duration(max(0.0, cell.begin - begin))
        took = "–" if cell.seconds is None else duration(cell.seconds)
        yield f"| {cell.phase} | {cell.state} | {after} | {took} | {cell.slowest_rank or '–'} |"


def _ranks(material: Material) -> Iterator[str]:
    model, whole = material.model, material.whole
    if whole.rank_rows():
        yield "## Ranks\n"
        if model.exits:
            yield "When all of them were last seen:\n"
        yield from fenced(rank_lines(diagnosis(whole, None, "")["ranks"]))
    if model.exits:
        yield ""
        began = model.exits[0].at
        for exit_ in model.exits[:40]:
            status = "status not known" if exit_.code is None else f"status {exit_.code}"
            yield f"- {exit_.rank or exit_.role} (pid {exit_.pid}) ended, {status}, {exit_.at - began:+.3f} s"


def _stacks(model: RunModel) -> Iterator[str]:
    if not model.stacks:
        return
    yield "## Stacks\n"
    newest = merge(model.stacks[-1], model.stacks[:-1])
    lines = stacks_text(newest).rstrip("\n").splitlines()
    yield f"The newest of {plural(len(model.stacks), 'dump')}; the archive has them all.\n"
    yield from fenced(_cut(lines, STACKS_MOST))


def _log(material: Material) -> Iterator[str]:
    yield "## Log\n"
    if material.no_log is not None:
        yield f"The log could not be read: {plain(material.no_log)}"
    room = LOG_MOST
    for excerpt in material.excerpts:
        lines = _cut(_marked(excerpt), room)
        room -= sum(map(len, lines))
        yield from (f"### {plain(excerpt.title)}\n", *fenced(lines), "")
    log = material.model.log
    if log is not None and log.last:
        yield "### The last line of each rank\n"
        yield from fenced(_cut([f"{line.rank:<8} {line.text}" for line in log.last], room))


def _marked(excerpt: Excerpt) -> list[str]:
    if not excerpt.marked:
        return list(excerpt.lines)
    return [f"{'>' if place in excerpt.marked else ' '} {line}" for place, line in enumerate(excerpt.lines)]


def _attempts(material: Material) -> Iterator[str]:
    ledger = material.ledger
    if ledger is None or len(ledger["attempts"]) < 2:
        return
    yield "## Attempts\n"
    yield from fenced(ledger_text(ledger).splitlines())


def _notices(model: RunModel) -> Iterator[str]:
    if model.notices or model.kernel:
        yield "## Notices\n"
    yield from (f"- {notice.source}: {plain(notice.text)}" for notice in model.notices[:40])
    yield from (f"- kernel: {plain(message.text)}" for message in model.kernel[:40])


def _hidden(material: Material, archive: str | None) -> Iterator[str]:
    yield "## About this report\n"
    when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(material.model.now))
    yield f"- by launchmon {__version__}, of the run as it was at {when}"
    if archive is not None:
        yield f"- recording: {coded(archive)}; look at it with {coded(f'launchmon replay {archive}')}"
    if material.left_out:
        yield f"- left out of the recording: {plural(material.left_out, 'sample')} of long ago"
    lines = told(material.redacted)
    yield "- hidden in report and recording: " + ("; ".join(lines) if lines else "nothing was found to hide")


# -------------------------------------------------------------------------------------------------------------- lengths


def _bounded(sections: Sequence[Sequence[str]]) -> str:
    """All sections, the longest of them cut where they are too long together; what is said of hiding stays."""
    texts = ["\n".join(section).strip("\n") for section in sections]
    while sum(len(text) + 2 for text in texts) > MOST:
        longest = max(range(len(texts) - 1), key=lambda place: len(texts[place]))
        over = sum(len(text) + 2 for text in texts) - MOST
        keep = max(200, len(texts[longest]) - over - 100)
        heading = texts[longest].partition("\n")[0]
        body = texts[longest][:keep].splitlines()[1:-1]
        texts[longest] = "\n".join([heading, "", *fenced([line for line in body if not line.startswith("```")])])
        texts[longest] += "\n\n(cut: the archive has all of it)"
    return "\n\n".join(text for text in texts if text) + "\n"


def _cut(lines: Sequence[str], most: int) -> list[str]:
    """Whole lines from both ends, at most so many characters, with a word on what is missing between them."""
    if sum(len(line) + 1 for line in lines) <= most:
        return list(lines)
    head: list[str] = []
    tail: list[str] = []
    room = max(0, most - 40)
    for place in range(len(lines)):
        upper = place % 3 < 2  # the beginning tells more
        line = lines[len(head)] if upper else lines[-1 - len(tail)]
        if len(line) + 1 > room or len(head) + len(tail) >= len(lines):
            break
        room -= len(line) + 1
        (head if upper else tail).append(line)
    missing = len(lines) - len(head) - len(tail)
    return [*head, f"… {plural(missing, 'line')} left out …", *reversed(tail)]


def _known(value: int | None) -> str:
    return "–" if value is None else str(value)
