"""The launch hook in real interpreters: it hands over, changes nothing else, and answers where ptrace is refused."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from launchmon_agent import codec
from launchmon_agent.codec import to_json
from launchmon_agent.events import Process, Stacks
from launchmon_agent.runs import directory, launch
from launchmon_agent.sensors import proc
from launchmon_agent.stacks import hooked
from launchmon_agent.stacks.dump import Dumper
from launchmon_agent.stacks.hooked import Unhooked
from launchmon_agent.stacks.merge import merge
from launchmon_agent.stacks.model import frames_of, main_thread
from launchmon_agent.stacks.plant import home_of, plant
from launchmon_agent.stacks.render import text
from tests.support.importing import SRC
from tests.support.ranks import RUN, Ranks, ranks
from tests.support.waiting import until

SETPRIV = shutil.which("setpriv")
WITHOUT_PTRACE = (str(SETPRIV), "--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace")
as_root = pytest.mark.skipif(
    os.geteuid() != 0 or SETPRIV is None, reason="only root can give capabilities and its user id away"
)

WAITER = """
import time
def wait_for_peers():
    there()
    time.sleep(600)
wait_for_peers()
"""
FORKER = """
import os, time
def child():
    open('child', 'w').write(str(os.getpid()))
    time.sleep(600)
if os.fork() == 0:
    child()
there()
time.sleep(600)
"""
DUMP = """
import json, sys
from launchmon_agent.codec import encode, from_json
from launchmon_agent.events import Process, Run
from launchmon_agent.stacks.dump import Dumper
order = json.load(sys.stdin)
processes = [from_json(Process, item) for item in order["processes"]]
sys.stdout.buffer.write(encode(Dumper(Run(0.0, id="test"), processes, hook=order["hook"]).dump()))
"""


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Ranks]:
    with ranks(tmp_path) as made:
        yield made


def planted(tmp_path: Path, **more: str) -> dict[str, str]:
    (tmp_path / "run").mkdir(exist_ok=True)
    return plant(str(tmp_path / "run"), {**os.environ, **more}, os.getpid())


def home(tmp_path: Path) -> str:
    return home_of(str(tmp_path / "run"))


def say(code: str, env: dict[str, str], *flags: str) -> tuple[int, str, str]:
    """Status, stdout and stderr of an interpreter that runs ``code``."""
    command = [sys.executable, *flags, "-c", code]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def without(env: dict[str, str]) -> dict[str, str]:
    """The environment as it was before the hook."""
    path = [entry for entry in env["PYTHONPATH"].split(os.pathsep) if entry != env["LAUNCHMON_HOOK"]]
    out = {name: value for name, value in env.items() if not name.startswith("LAUNCHMON_HOOK")}
    return {**out, "PYTHONPATH": os.pathsep.join(path)}


def dump_by(
    prefix: Sequence[str], processes: Sequence[Process], hook: str | None, python: str = sys.executable
) -> Stacks:
    """A dump that an agent with other rights takes."""
    order = {"processes": [to_json(process) for process in processes], "hook": hook}
    done = subprocess.run(
        [*prefix, python, "-c", DUMP],
        input=json.dumps(order).encode(),
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(SRC)},
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    dump = codec.decode(done.stdout)
    assert isinstance(dump, Stacks)
    return dump


# ------------------------------------------------------------------------------------------------------ what it changes

SHOW = "import sys; print(sys.path, sorted(sys.modules), getattr(sys.modules.get('sitecustomize'), '__file__', None))"


def test_an_interpreter_looks_as_without_it_but_for_the_modules_it_needs(tmp_path: Path) -> None:
    env = planted(tmp_path)
    status, shown, complaint = say(SHOW, env)
    _, plain, _ = say(SHOW, without(env))
    assert (status, complaint) == (0, "")
    assert shown.partition("]")[0] == plain.partition("]")[0], "sys.path"
    assert "sitecustomize" not in shown


def test_it_hands_over_to_the_sitecustomize_of_the_environment(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import sys\nmark = 4711\nsys.ours = __name__, __file__, __spec__.name\n")
    env = planted(tmp_path, PYTHONPATH=str(own))
    code = "import sys, sitecustomize; print(sitecustomize.mark, sys.ours, sys.path[1:])"
    assert say(code, env) == say(code, without(env))
    assert "4711" in say(code, env)[1]


def test_errors_of_the_environments_own_come_as_without_it(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    env = planted(tmp_path, PYTHONPATH=str(own))
    for content in ("1/0\n", "import no_such_module\n", "raise ImportError('x')\n", "no python\n"):
        (own / "sitecustomize.py").write_text(content)
        assert say("print('went on')", env) == say("print('went on')", without(env)), content
        assert say("print('went on')", env)[1] == "went on\n"
    (own / "sitecustomize.py").write_text("raise SystemExit(3)\n")
    assert say("print('went on')", env)[:2] == say("print('went on')", without(env))[:2]


@pytest.mark.parametrize("name", ["python2.7", *(f"python3.{minor}" for minor in range(6, 16))])
def test_whatever_python_a_server_starts_finds_its_own_sitecustomize(tmp_path: Path, name: str) -> None:
    program = shutil.which(name)
    if program is None or subprocess.run([program, "-c", "1"], capture_output=True, check=False).returncode:
        pytest.skip(f"{name} is not installed")
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("mark = 4711\n")
    env = planted(tmp_path, PYTHONPATH=str(own))
    code = "import sys, sitecustomize; print(sitecustomize.mark); print(sys.path[1])"
    done = subprocess.run([program, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"4711\n{own}\n", "")


def test_two_hooks_do_not_chase_each_other(tmp_path: Path) -> None:
    """A launch from inside a launched run inherits the outer run's hook."""
    first = planted(tmp_path)
    (tmp_path / "inner").mkdir()
    both = plant(str(tmp_path / "inner"), first, os.getpid())
    assert say("print('fine')", both) == (0, "fine\n", "")


@pytest.mark.parametrize("broken", ["missing", "unwritable", "not a pid", "no directory"])
def test_nothing_that_is_amiss_is_heard_of(tmp_path: Path, broken: str) -> None:
    env = planted(tmp_path)
    if broken == "missing":
        shutil.rmtree(home(tmp_path))
    elif broken == "unwritable":
        env["LAUNCHMON_HOOK"] = "/proc"
    elif broken == "not a pid":
        env["LAUNCHMON_HOOK_PTRACER"] = "x"
    else:
        env["LAUNCHMON_HOOK"] = str(tmp_path / "none")
    assert say("print('fine')", env) == (0, "fine\n", "")


def test_an_isolated_interpreter_is_not_touched(tmp_path: Path) -> None:
    say("pass", planted(tmp_path), "-I")
    assert sorted(os.listdir(home(tmp_path))) == ["__pycache__", "sitecustomize.py"]


def test_files_are_the_owners_alone(tmp_path: Path) -> None:
    say("pass", planted(tmp_path))
    modes = {entry.name: entry.stat().st_mode & 0o777 for entry in os.scandir(home(tmp_path)) if entry.is_file()}
    assert set(modes.values()) == {0o600} and len(modes) == 2
    assert os.stat(home(tmp_path)).st_mode & 0o777 == 0o700


# ---------------------------------------------------------------------------------------------------------- its answers


def test_a_process_answers_and_goes_on(made: Ranks, tmp_path: Path) -> None:
    process = made.start("TP0", WAITER, env=planted(tmp_path))
    for _ in range(3):
        answer = hooked.dump(process.pid, process.start_time, home(tmp_path), 5)
        assert [frame.function for frame in answer.threads[0].frames] == ["wait_for_peers", "<module>"]
        assert answer.python == f"{sys.version_info[0]}.{sys.version_info[1]}"
    until(lambda: made.state("TP0") == "S")
    assert os.stat(os.path.join(home(tmp_path), f"{process.pid}.txt")).st_size < 100, "answers are not kept"


def test_a_forked_child_answers_for_itself(made: Ranks, tmp_path: Path) -> None:
    process = made.start("TP0", FORKER, env=planted(tmp_path))
    until(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text())
    pid = int((tmp_path / "child").read_text())
    try:
        began = proc.start_time(pid)
        assert began is not None
        answer = hooked.dump(pid, began, home(tmp_path), 5)
        assert [frame.function for frame in answer.threads[0].frames] == ["child", "<module>"]
        parent = hooked.dump(process.pid, process.start_time, home(tmp_path), 5)
        assert [frame.function for frame in parent.threads[0].frames] == ["<module>"]
    finally:
        os.kill(pid, signal.SIGKILL)


def test_a_process_that_would_die_of_the_signal_is_not_sent_it(made: Ranks, tmp_path: Path) -> None:
    env = planted(tmp_path)
    bare = made.start("TP0", WAITER)
    with pytest.raises(Unhooked, match="does not carry"):
        hooked.dump(bare.pid, bare.start_time, home(tmp_path), 1)
    (Path(home(tmp_path)) / f"{bare.pid}.txt").write_text(
        f"launchmon-hook pid={bare.pid} main=0x1 fd=200 python=3.11\n"
    )
    with pytest.raises(Unhooked, match="signal handler"):
        hooked.dump(bare.pid, bare.start_time, home(tmp_path), 1)
    closed = made.start("TP1", "import os\nos.closerange(3, 1000)\n" + WAITER, env=env)
    with pytest.raises(Unhooked, match="closed the file"):
        hooked.dump(closed.pid, closed.start_time, home(tmp_path), 1)
    assert [made.state(who) for who in made.children] == ["S", "S"]


def test_a_stopped_process_does_not_answer_and_survives_its_continuation(made: Ranks, tmp_path: Path) -> None:
    process = made.start("TP0", WAITER, env=planted(tmp_path))
    made.stop("TP0")
    with pytest.raises(Unhooked, match="did not answer within"):
        hooked.dump(process.pid, process.start_time, home(tmp_path), 0.3)
    os.kill(process.pid, signal.SIGCONT)
    until(lambda: made.state("TP0") == "S")
    assert hooked.dump(process.pid, process.start_time, home(tmp_path), 5).threads


# ---------------------------------------------------------------------------------------------- where ptrace is refused


@as_root
def test_root_without_the_capability_gets_one_cause_and_one_command(made: Ranks) -> None:
    made.start("TP0", WAITER)
    made.start("TP1", WAITER)
    dump = dump_by(WITHOUT_PTRACE, made.processes, hook=None)
    assert {stack.means for stack in dump.stacks} == {"proc"}
    assert [stack.rank for stack in dump.stacks] == ["TP0", "TP1"]
    said = text(merge(dump))
    assert said.count("root without the capability SYS_PTRACE") == 1
    assert said.count("try: ") == 1


@as_root
def test_root_without_the_capability_dumps_a_launched_run_through_the_hook(made: Ranks, tmp_path: Path) -> None:
    env = planted(tmp_path)
    for number in range(4):
        made.start(f"TP{number}", WAITER, env=env)
    dump = dump_by(WITHOUT_PTRACE, made.processes, hook=home(tmp_path))
    assert {(stack.means, stack.problem) for stack in dump.stacks} == {("faulthandler", None)}
    merged = merge(dump)
    (group,) = merged.groups
    assert group.label == "TP0-3" and group.shown[0].function == "wait_for_peers"
    assert [made.state(who) for who in made.children] == ["S"] * 4


USER = 54321
SYSTEM_PYTHON = "/usr/bin/python3"


def other_user_can_run_us() -> bool:
    if os.geteuid() != 0 or SETPRIV is None:
        return False
    code = "import sys; assert sys.version_info >= (3, 10); import launchmon_agent.stacks.dump"
    prefix = (SETPRIV, f"--reuid={USER}", f"--regid={USER}", "--clear-groups")
    done = subprocess.run(
        [*prefix, SYSTEM_PYTHON, "-c", code], env={"PYTHONPATH": str(SRC)}, capture_output=True, check=False
    )
    return done.returncode == 0


as_other = pytest.mark.skipif(
    not other_user_can_run_us(), reason="needs root, and a Python and sources that another user can read"
)
AS_USER = (str(SETPRIV), f"--reuid={USER}", f"--regid={USER}", "--clear-groups")


@as_other
def test_another_users_run_is_refused_with_one_cause_and_one_command(made: Ranks) -> None:
    process = made.start("TP0", WAITER)
    dump = dump_by(AS_USER, [process], hook=None, python=SYSTEM_PYTHON)
    (stack,) = dump.stacks
    assert f"another user (uid 0, we are {USER})" in (stack.problem or "")
    assert stack.cure == f"sudo launchmon dump --pid {process.pid}"
    assert made.state("TP0") == "S"


@as_other
def test_an_ordinary_user_dumps_his_launched_run_through_the_hook() -> None:
    """As under Yama: the server may not be read by its own user, here because it has made itself undumpable."""
    code = "import ctypes\nctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n" + WAITER
    workdir = Path("/tmp") / f"launchmon-hook-{os.getpid()}"  # pytest's own directories are closed to other users
    workdir.mkdir()
    try:
        env = plant(str(workdir), dict(os.environ), os.getpid())
        for path in (workdir, workdir / "hook", workdir / "hook" / "sitecustomize.py"):
            os.chown(path, USER, USER)
        with ranks(workdir) as made:
            made.python = SYSTEM_PYTHON
            process = made.start("TP0", code, env=env, prefix=AS_USER)
            foreign = dump_by(AS_USER, [process], hook=None, python=SYSTEM_PYTHON)
            assert foreign.stacks[0].means == "proc" and "unreadable" in (foreign.stacks[0].problem or "")
            dump = dump_by(AS_USER, [process], hook=str(workdir / "hook"), python=SYSTEM_PYTHON)
            assert (dump.stacks[0].means, dump.stacks[0].problem) == ("faulthandler", None)
            names = [frame.function for frame in frames_of(dump, main_thread(dump.stacks[0]))]
            assert names == ["wait_for_peers", "<module>"]
    finally:
        shutil.rmtree(workdir)


# ---------------------------------------------------------------------------------------------------- in a launched run


@pytest.mark.parametrize("leave_out, means", [((), "faulthandler"), (("hook",), "proc")])
def test_a_launched_run_carries_it_unless_it_was_left_out(
    tmp_path: Path, leave_out: tuple[str, ...], means: str
) -> None:
    there = tmp_path / "there"
    code = f"import time; open({str(there)!r}, 'w').close(); time.sleep(600)"
    plan = launch.prepare([sys.executable, "-c", code], without=leave_out)
    made = directory.create(plan.argv, name="run", root=str(tmp_path))
    pid, began = launch.start(plan, made)
    try:
        until(there.exists)
        dump = Dumper(RUN, [Process(pid, began, "launcher")], hook=home_of(made.path), program="/nonexistent").dump()
        assert dump.stacks[0].means == means
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
