"""The nodes of a Slurm job as targets: each is reached by a step of the job that overlaps what runs there.

``scontrol`` is asked on this machine, or on the one target that is named beside the job: its login node. What is said
there is in scontrol(1) and srun(1); ``--overlap`` is of Slurm 20.11.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from launchmon.connect import Asker, Channel, Ending
from launchmon.connect.process import ProcessChannel
from launchmon.connect.target import LOCAL, Target
from launchmon_agent.errors import Refused
from launchmon_agent.log.display import printable

_JOB = re.compile(r"\d+(?:[_+]\d+)?")
"""``42``, a task of an array ``42_7``, a component of a heterogeneous job ``42+1``."""

_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_FIELD = re.compile(r"(?:^|\s)(JobId|JobState|NodeList|ArrayTaskId)=(\S*)")
NOT_FOUND = 127
"""What a shell says of a program that is not there."""

MOST = 1 << 20
"""Bytes of an answer that are read."""


def job(text: str) -> str:
    """Raises :class:`Refused` for what is no job id."""
    if not _JOB.fullmatch(text):
        raise Refused(f"{text!r} is no id of a Slurm job", "", "squeue --me")
    return text


def in_job(id_: str, login: Target) -> Target:
    """A job as one target, which :func:`nodes` makes into its nodes. ``login``: where Slurm is asked."""
    return Target("slurm", id_, login=None if login == LOCAL else login)


async def nodes(target: Target, asker: Asker) -> tuple[Target, ...]:
    """A target for each node of the job, in Slurm's order. Raises :class:`Refused`."""
    id_, login = target.spec, target.login or LOCAL
    listed = await _scontrol(login, ("show", "job", id_), asker)
    if listed.status not in (0, None):
        raise _refused(target, listed)
    expression = _running(id_, listed.printed)
    names = await _scontrol(login, ("show", "hostnames", expression), asker)
    found = [name for name in names.printed.split() if _NODE.fullmatch(name)]
    if names.status not in (0, None) or not found:
        raise Refused(f"the nodes of job {id_} are not known: {expression}", names.complaint, f"squeue -j {id_}")
    return tuple(_node(target, name) for name in found)


def _node(job_: Target, name: str) -> Target:
    step = f"srun --jobid {job_.spec} --overlap -w {name} -N1 -n1"
    login = job_.login
    if login is None or login.kind == "via":
        return Target("via", step if login is None else f"{login.spec} {step}", name=name, job=job_)
    return Target("ssh", login.spec, step=step, name=name, job=job_)


def _running(id_: str, printed: str) -> str:
    """The list of nodes of the job, as Slurm writes it. Raises :class:`Refused` where there is none, or several."""
    told = [text for text in re.split(r"\n\s*\n", printed) if "JobState=" in text]
    records: list[dict[str, str]] = [dict(_FIELD.findall(text)) for text in told]
    running = [record for record in records if record["JobState"] == "RUNNING"]
    if not running:
        state = records[0]["JobState"].lower() if records else "not told"
        waits = any(record["JobState"] == "PENDING" for record in records)
        raise Refused(
            f"job {id_} does not run",
            f"its state is {state}",
            f"squeue -j {id_} --start    # when it is expected to start" if waits else "squeue --me",
        )
    if len(running) > 1:
        tasks = [f"{id_}_{record['ArrayTaskId']}" for record in running if record.get("ArrayTaskId")]
        which = tasks or [record.get("JobId", "?") for record in running]
        raise Refused(f"job {id_} is {len(running)} jobs that run", ", ".join(which), f"--slurm {which[0]}")
    return running[0].get("NodeList", "")


class _Answer:
    def __init__(self, printed: str, ending: Ending) -> None:
        self.printed = printed
        self.status = ending.status
        said = [line.strip() for line in ending.complaints.splitlines() if line.strip()]
        self.complaint = printable(said[-1]) if said else ""


async def _scontrol(login: Target, words: Sequence[str], asker: Asker) -> _Answer:
    channel = await _opened(login, ["scontrol", *words], asker)
    printed = bytearray()
    try:
        while len(printed) < MOST and (part := await channel.read()):
            printed += part
    finally:
        ending = await channel.close()
    return _Answer(printed.decode("utf-8", "replace"), ending)


async def _opened(login: Target, words: Sequence[str], asker: Asker) -> Channel:
    if login.kind == "ssh":
        from launchmon.connect.ssh import open_channel  # asyncssh takes half a second to import

        return await open_channel(login.spec, f"exec {shlex.join(words)}", asker)
    before = shlex.split(login.spec) if login.kind == "via" else []
    try:
        return await ProcessChannel.open([*before, *words])
    except Refused as refused:
        raise refused if before else _no_slurm(login) from None


def _refused(target: Target, answer: _Answer) -> Refused:
    login = target.login or LOCAL
    if answer.status == NOT_FOUND:
        return _no_slurm(login)
    if "invalid job id" in answer.complaint.lower():
        return Refused(f"Slurm knows no job {target.spec}", f"{answer.complaint}; it may have ended", "squeue --me")
    return Refused(f"Slurm was asked for job {target.spec} and refused", answer.complaint, "sinfo")


def _no_slurm(login: Target) -> Refused:
    return Refused(
        f"there is no Slurm on {login.label}: scontrol was not found",
        "the job has to be asked for where Slurm is installed: on its login node",
        "launchmon attach --slurm JOBID --on LOGINHOST",
    )
