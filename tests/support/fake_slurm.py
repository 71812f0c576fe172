"""``scontrol`` and ``srun`` for a PATH: they know some jobs, and run steps on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

NODES = "gpu[07-08]"

RUNNING = f"""\
JobId=42 JobName=serve
   UserId=ada(1000) GroupId=ada(1000) MCS_label=N/A
   JobState=RUNNING Reason=None Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0
   ReqNodeList=(null) ExcNodeList=gpu09
   NodeList={NODES}
   BatchHost=gpu07
   NumNodes=2 NumCPUs=128 NumTasks=2 CPUs/Task=64 ReqB:S:C:T=0:0:*:*
"""
"""Laid out as Slurm 23.11 prints it."""

JOBS = {
    "42": RUNNING,
    "43": RUNNING.replace("42", "43").replace("RUNNING", "PENDING").replace(f" NodeList={NODES}", " NodeList=(null)"),
    "44": RUNNING.replace("42", "44").replace("RUNNING", "COMPLETED"),
    "45": "\n".join(
        RUNNING.replace("JobId=42", f"JobId={47 + task} ArrayJobId=45 ArrayTaskId={task}") for task in (1, 2)
    ),
    "46": RUNNING.replace("42", "46").replace(NODES, "gpu07"),
}
"""Two nodes; waiting; over; two tasks of an array; one node."""

SCONTROL = """\
#!/bin/sh
case "$1 $2" in
"show job")
    if [ -f "{jobs}/$3" ]; then cat "{jobs}/$3"; exit 0; fi
    echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1 ;;
"show hostnames")
    case "$3" in
    "gpu[07-08]") echo gpu07; echo gpu08 ;;
    *) echo "$3" ;;
    esac ;;
*) exit 2 ;;
esac
"""

SRUN = """\
#!/bin/sh
echo "$*" >> "{steps}"
while [ $# -gt 0 ]; do
    case "$1" in
    --jobid) shift 2 ;;
    -w) LAUNCHMON_TEST_NODE="$2"; export LAUNCHMON_TEST_NODE; shift 2 ;;
    -*) shift ;;
    *) break ;;
    esac
done
exec "$@"
"""


class FakeSlurm:
    """``path`` is the directory for the PATH; :attr:`steps` what srun was called with."""

    def __init__(self, place: Path, jobs: Mapping[str, str] = JOBS) -> None:
        self.path = place / "bin"
        self._steps = place / "steps"
        told = place / "jobs"
        self.path.mkdir()
        told.mkdir()
        for name, text in jobs.items():
            (told / name).write_text(text)
        for name, text in (("scontrol", SCONTROL.format(jobs=told)), ("srun", SRUN)):
            program = self.path / name
            program.write_text(text.replace("{steps}", str(self._steps)))
            program.chmod(0o755)

    @property
    def steps(self) -> list[str]:
        return self._steps.read_text().splitlines() if self._steps.exists() else []
