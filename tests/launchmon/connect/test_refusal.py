"""Why no agent came up, in words: each known complaint by a message that was seen, and what the script reports."""

from __future__ import annotations

import re

import pytest

from launchmon.connect import Ending, bootstrap, target
from launchmon.connect.refusal import NotStarted, complaints, refusal
from launchmon_agent.errors import Refused

ID = "3f4e8c1d2b6a" + "0" * 52

SEEN: dict[str, tuple[str, int, str]] = {
    "ssh-changed-key": (
        "ssh box",
        255,
        "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\nHost key verification failed.",
    ),
    "ssh-unknown-key": ("ssh box", 255, "Host key verification failed."),
    "ssh-login": ("ssh box", 255, "root@box: Permission denied (publickey,password)."),
    "ssh-name": ("ssh box", 255, "ssh: Could not resolve hostname box: Name or service not known"),
    "ssh-nobody": ("ssh box", 255, "ssh: connect to host box port 22: Connection refused"),
    "ssh-silent": ("ssh box", 255, "ssh: connect to host box port 22: Connection timed out"),
    "ssh-other": ("ssh box", 255, "client_loop: send disconnect: Broken pipe"),
    "container-terminal": ("docker exec -it sgl", 1, "the input device is not a TTY"),
    "container-unknown": ("docker exec -i sgl", 1, "Error response from daemon: No such container: sgl"),
    "container-stopped": ("docker exec -i sgl", 1, "Error response from daemon: container 3f4e is not running"),
    "container-daemon-permission": (
        "docker exec -i sgl",
        1,
        "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock",
    ),
    "container-daemon": (
        "docker exec -i sgl",
        1,
        "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
    ),
    "pod-unknown": ("kubectl exec -i sgl-0 --", 1, 'Error from server (NotFound): pods "sgl-0" not found'),
    "pod-container": (
        "kubectl exec -i sgl-0 -c main --",
        1,
        "Error from server (BadRequest): container main is not valid for pod sgl-0",
    ),
    "pod-ended": (
        "kubectl exec -i sgl-0 --",
        1,
        "error: cannot exec into a container in a completed pod; current phase is Succeeded",
    ),
    "pod-forbidden": (
        "kubectl exec -i sgl-0 --",
        1,
        'Error from server (Forbidden): pods "sgl-0" is forbidden: User "a" cannot create resource "pods/exec"',
    ),
    "cluster-silent": (
        "kubectl exec -i sgl-0 --",
        1,
        "The connection to the server localhost:8080 was refused - did you specify the right host or port?",
    ),
    "container-no-shell": (
        "docker exec -i sgl",
        127,
        'exec failed: unable to start container process: exec: "sh": executable file not found in $PATH: unknown',
    ),
    "sudo-password": ("sudo", 1, "sudo: a terminal is required to read the password; either use the -S option"),
    "sudo-forbidden": ("sudo -n", 1, "ada is not in the sudoers file."),
    "sudo-privileges": ("sudo -n", 1, 'sudo: The "no new privileges" flag is set, which prevents sudo from running'),
    "nsenter-gone": ("nsenter -t 77 -m", 1, "nsenter: cannot open /proc/77/ns/mnt: No such file or directory"),
    "nsenter-rights": ("nsenter -t 1 -m", 1, "reassociate to namespace 'ns/mnt' failed: Operation not permitted"),
    "netns-unknown": ("ip netns exec blue", 255, 'Cannot open network namespace "blue": No such file or directory'),
    "srun-job": ("srun --jobid 7 --overlap", 1, "srun: error: Unable to confirm allocation: Invalid job id specified"),
    "srun-busy": ("srun --jobid 7", 1, "srun: Step creation temporarily disabled, retrying (Requested nodes are busy)"),
    "stopped-reading": ("docker exec sgl", 0, ""),
    "may-not-run": ("./enter", 126, "./enter: line 3: /bin/sh: Permission denied"),
    "no-sh": ("./enter", 127, "./enter: line 3: sh: not found"),
}  # fmt: skip


def why(spec: str, status: int | None, printed: str) -> Refused:
    return refusal(target.via(spec), NotStarted(Ending(status), printed))


def test_every_complaint_was_seen() -> None:
    assert {row.id for row in complaints()} == SEEN.keys()


@pytest.mark.parametrize("row", complaints(), ids=lambda row: row.id)
def test_a_complaint_is_told_with_its_cause_and_one_thing_to_try(row: object) -> None:
    (known,) = (one for one in complaints() if one is row)
    spec, status, printed = SEEN[known.id]
    refused = why(spec, status, printed)
    assert refused.cause == known.cause
    assert refused.try_ and "{" not in refused.try_
    last = printed.splitlines()[-1] if printed else f"status {status}"
    assert last in refused.what and spec in refused.what


def test_what_is_to_be_tried_names_what_the_person_named() -> None:
    assert why("docker exec -it --user 0 sgl", 1, SEEN["container-terminal"][2]).try_ == (
        "--via 'docker exec -i --user 0 sgl'"
    )
    assert why("docker exec --tty -i sgl", 1, SEEN["container-terminal"][2]).try_ == "--via 'docker exec -i sgl'"
    login = SEEN["ssh-login"][2]
    assert "--on ada@box " in why("ssh -p 2222 -o BatchMode=yes ada@box docker exec -i sgl", 255, login).try_
    assert why("sudo podman exec -i x", 1, "Error: no container with name or ID x").try_ == "podman ps"


def test_a_complaint_counts_only_for_a_program_in_the_prefix() -> None:
    refused = why("./enter", 1, "sudo: a password is required")
    assert refused.cause == "sudo: a password is required" and "status 1" in refused.what


def test_a_signal_and_a_link_that_ended() -> None:
    assert "signal 9" in why("./enter", -9, "").what
    assert "the link ended" in refusal(target.ssh("box"), NotStarted(Ending(None), "")).what


def test_a_target_that_says_nothing_for_too_long() -> None:
    refused = refusal(target.via("srun"), NotStarted(None, "srun: job 7 queued\r\n", 30.0))
    assert "within 30 s" in refused.what and "srun: job 7 queued" in refused.cause


@pytest.mark.parametrize(
    ("where", "command"),
    [
        (target.via("./enter -i x"), "echo id | ./enter -i x sh"),
        (target.ssh("ada@box:22"), "echo id | ssh -p 22 ada@box sh"),
        (target.Target("ssh", "login", step="srun -w n1", name="n1"), "echo id | ssh login srun -w n1 sh"),
        (target.LOCAL, "launchmon doctor"),
    ],
)
def test_what_is_not_known_can_be_tried_by_hand(where: target.Target, command: str) -> None:
    assert refusal(where, NotStarted(Ending(1), "no way")).try_ == command
    assert refusal(where, NotStarted(None, "", 30.0)).try_ == command


def test_control_sequences_do_not_reach_the_person() -> None:
    refused = why("./enter", 1, "\x1b[31mno\x1b]0;title\x07 way\x9b2J")
    assert not re.search(r"[\x00-\x1f\x7f-\x9f]", refused.what + refused.cause)


# ---------------------------------------------------------------------------------------------- what the script reports


def test_no_python_at_all() -> None:
    refused = why("./enter", bootstrap.NO_PYTHON, "Welcome!\n")
    assert "no Python was found" in refused.what and "3.10" in refused.cause and refused.try_


def test_python_too_old_and_python_incomplete() -> None:
    printed = "launchmon: unfit /usr/bin/python3=3.6.8\r\nlaunchmon: unfit /opt/python3=3.12.1\n"
    refused = why("./enter", bootstrap.UNFIT_PYTHON, printed)
    assert "/usr/bin/python3 is 3.6.8" in refused.cause
    assert "/opt/python3 (3.12.1) lacks" in refused.cause


@pytest.mark.parametrize(
    "cgroup, enter",
    [
        (f"0::/system.slice/docker-{ID}.scope", "docker exec -i 3f4e8c1d2b6a"),
        (f"12:devices:/docker/{ID}", "docker exec -i 3f4e8c1d2b6a"),
        (f"0::/machine.slice/libpod-{ID}.scope/container", "podman exec -i 3f4e8c1d2b6a"),
        (f"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope", "crictl exec -i 3f4e8c1d2b6a"),
        ("0::/user.slice", "nsenter -t 4711 -a"),
    ],
)
def test_a_server_in_a_container_has_the_only_python(cgroup: str, enter: str) -> None:
    printed = f"launchmon: container 4711={cgroup}\nlaunchmon: foreign 12\n"
    assert why("sudo -n", bootstrap.ELSEWHERE, printed).try_ == f"--via 'sudo -n {enter}'"
    over_ssh = refusal(target.ssh("ada@box:22"), NotStarted(Ending(bootstrap.ELSEWHERE), printed))
    assert over_ssh.try_ == f"--via 'ssh -p 22 ada@box {enter}'"


def test_a_server_of_somebody_else_has_the_only_python() -> None:
    refused = why("./enter", bootstrap.ELSEWHERE, "launchmon: foreign 12\nlaunchmon: foreign 13\n")
    assert "pid 12, 13" in refused.cause and "somebody else" in refused.cause


def test_a_lying_target_is_only_quoted() -> None:
    looked = bootstrap.looked("launchmon: container 1;reboot=x\nlaunchmon: container x=y\nlaunchmon: unfit\n")
    assert looked == bootstrap.Looked()
