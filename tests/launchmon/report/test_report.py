"""A report: what it tells, that nothing in it breaks out, and that its archive is always the same."""

from __future__ import annotations

import io
import os
import re
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest

from launchmon.replay.files import read_lines
from launchmon.replay.recorded import Recorded
from launchmon.replay.session import ReplaySession
from launchmon.report import gather as gathering
from launchmon.report.archive import archive, default_stem, free_stem, stem, write
from launchmon.report.gather import Material, gather
from launchmon.report.markdown import MOST, coded, fenced, markdown, plain
from launchmon_agent.codec import encode
from launchmon_agent.errors import Refused
from launchmon_agent.events import Evidence, Host, LastLine, Log, LogError, Next, Notice, Run, Verdict
from tests.support.fake_session import FakeSession
from tests.support.replaying import recorded, seed_lines


async def seed() -> Material:
    return await gather(ReplaySession(Recorded(seed_lines()), "this machine"))


async def test_a_dead_lock_is_told_with_all_that_one_asks_for() -> None:
    text = markdown(await seed(), "r.tar.gz")
    for said in (
        "# demo-seed: deadlock-silent",
        "**Simulated**",
        "Before it was ended",
        "8 of 8 ranks have done nothing",
        "ruled out: crashed",
        "next: relaunch `--disable-cuda-graph`",
        "- launchmon: ",
        "8 × NVIDIA RTX PRO 6000",
        "-m launchmon.demo.launch_server",
        "| kv-pool | stopped |",
        "TP0-7  8 of 8",
        "Load weight end. elapsed=",
        "detokenizer (pid ",
        "`launchmon replay r.tar.gz`",
        "hidden in report and recording:",
    ):
        assert said in text, said
    assert len(text) < MOST


async def test_the_log_is_said_to_be_missing_where_it_is() -> None:
    assert "The log could not be read: the log is not part of this recording" in markdown(await seed())


async def test_issues_of_others_are_named_without_a_link_to_them() -> None:
    text = markdown(await seed())
    assert re.search(r"\w/\w+#\d+", text)
    assert not re.search(r"\w/\w+#\d+", re.sub(r"`[^`]*`", "", text))


def hostile() -> list[bytes]:
    evil = "```\n# owned\n<script>alert(1)</script> | @everyone [x](http://e) ![i](http://e) \\"
    return [
        encode(event)
        for event in (
            Run(1.0, id="r", name=evil, argv=("python", evil), variables={"NCCL_X": evil}, launched=True),
            LogError(2.0, "TP0", 5, "x", "fatal", evil, evil),
            Log(3.0, size=10, last=(LastLine("TP0", 3.0, evil),)),
            Notice(4.0, source="log", text=evil),
            Verdict(
                5.0,
                verdict="crashed",
                summary=evil,
                evidence=(Evidence(evil, evil),),
                next=(Next("run", (evil,), evil, evil),),
            ),
        )
    ]


async def test_what_others_wrote_stays_text() -> None:
    material = await gather(ReplaySession(Recorded(hostile()), "x"))
    prose: list[str] = []
    fence = ""
    for line in markdown(material).splitlines():
        marker = re.match(r"`{3,}", line)
        if fence:
            fence = "" if line == fence else fence
        elif marker:
            fence = marker[0]
        else:
            prose.append(re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", line))
    assert not fence, "every block that is opened is closed"
    said = "\n".join(prose)
    assert "\n# owned" not in said
    assert not re.search(r"(?<!\\)<script", said)
    assert not re.search(r"(?<!\\)\]\(", said)
    assert "@everyone" not in said


def test_a_fence_is_longer_than_any_in_its_lines() -> None:
    assert fenced(["a", "````", "b"]) == ["`````text", "a", "````", "b", "`````"]
    assert coded("a `b` c") == "`` a `b` c ``"
    assert plain("a_b *c* @d") == "a\\_b \\*c\\* @\u200bd"


async def test_a_report_that_is_too_long_is_cut_and_says_so() -> None:
    notices = [Notice(float(number), source="log", text=f"{number} " + "x" * 2000) for number in range(60)]
    material = await gather(ReplaySession(recorded(Run(0.0, id="r"), *notices), "x"))
    text = markdown(material)
    assert len(text) <= MOST
    assert "(cut: the archive has all of it)" in text
    assert "hidden in report and recording:" in text


async def test_a_live_session_is_told_with_the_lines_around_its_errors() -> None:
    session = FakeSession()
    lines = [f"[2026-11-29 18:00:{second:02d} TP1] line {second}" for second in range(40)]
    offsets = session.write(*lines, "[2026-11-29 18:01:00 TP1] RuntimeError: --api-key hidethis", *lines)
    session.model.errors.append(LogError(2.0, "TP1", offsets[40], "x", "fatal", "RuntimeError"))
    session.recorded = [encode(Run(1.0, id="r", argv=("x", "--api-key", "hidethis")))]
    text = markdown(await gather(session))
    assert "> [2026-11-29 18:01:00 TP1] RuntimeError: --api-key •••" in text
    assert "line 37" in text
    assert "line 36\n" not in text.partition("### the last lines")[0]
    assert "hidethis" not in text
    assert "API key: in 2 places" in text


async def test_the_archive_is_the_same_for_the_same_recording_and_private(tmp_path: Path) -> None:
    one, two = await seed(), await seed()
    text = markdown(one, "r.tar.gz")
    assert archive(one, "r", text) == archive(two, "r", text)
    for path in write(one, str(tmp_path / "r")):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    with tarfile.open(fileobj=io.BytesIO(archive(one, "r", text))) as tar:
        members = tar.getmembers()
    assert [member.name for member in members] == ["r/events.jsonl", "r/report.md", "r/stacks.txt"]
    assert {(member.uid, member.uname, member.mode) for member in members} == {(0, "", 0o600)}


async def test_the_archive_can_be_replayed_and_reported_again(tmp_path: Path) -> None:
    material = await seed()
    _, path = write(material, str(tmp_path / "r"))
    again = ReplaySession(Recorded(read_lines(path)), "x")
    assert list(again.model.replay()) == list(material.model.replay())
    second = await gather(again)
    assert second.lines[: len(material.lines)] == material.lines


async def test_nothing_is_overwritten_and_nothing_half_written_is_left(tmp_path: Path) -> None:
    material = await seed()
    (tmp_path / "r.tar.gz").write_bytes(b"mine")
    with pytest.raises(Refused, match="exists already"):
        write(material, str(tmp_path / "r"))
    assert (tmp_path / "r.tar.gz").read_bytes() == b"mine"
    assert not (tmp_path / "r.md").exists()
    with pytest.raises(Refused, match="could not be written"):
        write(material, str(tmp_path / "nowhere" / "r"))
    assert free_stem(str(tmp_path / "r")) == str(tmp_path / "r-2")


@pytest.mark.parametrize("name", ["", "folder/"])
async def test_a_report_needs_a_name(name: str) -> None:
    with pytest.raises(Refused, match="names no file"):
        write(await seed(), name)


async def test_bytes_that_are_no_text_are_written_as_what_they_are(tmp_path: Path) -> None:
    argv = ("sglang", "serve", os.fsdecode(b"/models/\xff"))
    material = await gather(ReplaySession(recorded(Run(0.0, id="r", argv=argv)), "x"))
    path, packed = write(material, str(tmp_path / "r"))
    assert "/models/\\udcff" in Path(path).read_text()
    assert read_lines(packed)


async def test_names_of_files(tmp_path: Path) -> None:
    assert default_stem(await seed()) == "launchmon-report-20261129-212149-demo-seed"
    assert [stem(name) for name in ("a.md", "a.tar.gz", "a.tgz", "a.b")] == ["a", "a", "a", "a.b"]


async def test_a_long_recording_keeps_what_happened_and_the_newest_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "MOST", 1000)
    events: list[Any] = [Run(0.0, id="r")]
    for second in range(2000):
        events.append(Host(float(second), cpus=8))
        if second % 500 == 0:
            events.append(Notice(float(second), text=f"n{second}"))
    material = await gather(ReplaySession(recorded(*events), "x"))
    hosts = [line for line in material.lines if b'"host"' in line]
    assert len(hosts) == 601 + 140
    assert sum(b'"notice"' in line for line in material.lines) == 4
    assert material.left_out == 2000 - 741
    assert "left out of the recording: 1259 samples of long ago" in markdown(material)
