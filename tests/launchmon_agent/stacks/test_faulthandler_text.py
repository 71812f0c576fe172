"""The text that faulthandler writes on a signal."""

from __future__ import annotations

import pytest

from launchmon_agent.stacks.faulthandler_text import Header, parse, parse_header

TWO = """\
Thread 0x00007f01 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait
  File "/usr/lib/python3.11/threading.py", line 982 in run

Current thread 0x00007f02 (most recent call first):
  File "/own/a b.py", line 12 in <lambda>
  File "<string>", line 3 in <module>
"""
NEWER = """\
Thread 0x00007f01 [tqdm_monitor] (most recent call first):
  <no Python frame>

Current thread 0x00007f02 [python] (most recent call first):
  Garbage-collecting
  File "/own/a.py", line ??? in work
  ...

Current thread's C stack trace (most recent call first):
  Binary file "/usr/bin/python3", at _Py_DumpStack+0x3f [0x5d]
  File "/looks/like/a.frame", line 3 in c
"""


def test_threads_with_the_main_one_first() -> None:
    main, other = parse(TWO, 0x7F02)
    assert main.main and not other.main
    assert [(frame.function, frame.file, frame.line) for frame in main.frames] == [
        ("<lambda>", "/own/a b.py", 12),
        ("<module>", "<string>", 3),
    ]
    assert other.frames[0].function == "wait"


def test_without_a_header_the_oldest_thread_is_the_main_one() -> None:
    assert [thread.frames[0].function for thread in parse(TWO, None) if thread.main] == ["<lambda>"]


def test_what_newer_versions_add() -> None:
    main, other = parse(NEWER, 0x7F02)
    assert [(frame.function, frame.line) for frame in main.frames] == [("work", None)]
    assert (other.name, other.frames) == ("tqdm_monitor", ())


@pytest.mark.parametrize("cut", range(0, len(TWO), 7))
def test_a_text_that_was_cut_is_read_as_far_as_it_goes(cut: int) -> None:
    for thread in parse(TWO[:cut], 0x7F02):
        assert all(frame.function for frame in thread.frames)


def test_header() -> None:
    text = "launchmon-hook pid=12 main=0x7f02 fd=200 python=3.11\n" + TWO
    assert parse_header(text) == Header(12, 0x7F02, 200, "3.11")
    assert parse_header(TWO) is None
