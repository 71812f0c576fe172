"""The look of the simulated log: prefixes, and bars that read like the loaders' and tqdm's."""

from __future__ import annotations

import re

import pytest

from launchmon.demo.engine.log import Bar, Logger, write

PREFIX = re.compile(r"\[(?P<ts>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?P<tags>(?: [A-Z][A-Z_]*\d+)*)\] (?P<msg>.*)")
SHARDS = re.compile(
    r"(?P<desc>[^\r\n]*?): +(?P<pct>\d+)% Completed \| (?P<n>\d+)/(?P<tot>\d+) "
    r"\[(?P<el>[\d:]+)<(?P<eta>[\d:?]+), +(?P<rate>[\d.?]+) ?(?P<unit>it/s|s/it)\]"
)
TQDM = re.compile(
    r"(?P<desc>(?:Capturing)[^:\r\n]*)?:? *(?P<pct>\d+)%\|[^|]*\| (?P<n>\d+)/(?P<tot>\d+) "
    r"\[(?P<el>[\d:]+)<(?P<eta>[\d:?]+), +(?P<rate>[\d.?]+) ?(?P<unit>it/s|s/it)\]"
)


@pytest.mark.parametrize(("tag", "shown"), [("TP3", " TP3"), ("", "")])
def test_a_line_has_time_and_tag(tag: str, shown: str, capfd: pytest.CaptureFixture[str]) -> None:
    Logger(tag).info("Init parallel begin.")
    found = PREFIX.fullmatch(capfd.readouterr().err.rstrip("\n"))
    assert found is not None
    assert (found["tags"], found["msg"]) == (shown, "Init parallel begin.")


def test_a_bar_of_shards(capfd: pytest.CaptureFixture[str]) -> None:
    bar = Bar(4, "Multi-thread loading shards", shards=True)
    bar.show(1)
    bar.show(4)
    bar.close()
    text = capfd.readouterr().err
    assert text.endswith("\n") and text.count("\n") == 1
    found = [SHARDS.fullmatch(refresh) for refresh in text.rstrip("\n").split("\r")[1:]]
    assert [(match["pct"], match["n"]) for match in found if match] == [("0", "0"), ("25", "1"), ("100", "4")]
    assert found[0] is not None
    assert (found[0]["eta"], found[0]["rate"]) == ("?", "?")


def test_a_bar_of_graphs_has_no_label_at_first(capfd: pytest.CaptureFixture[str]) -> None:
    bar = Bar(36)
    bar.show(1, "Capturing batches (bs=256 avail_mem=9.04 GB)")
    found = [TQDM.fullmatch(refresh) for refresh in capfd.readouterr().err.split("\r")[1:]]
    assert [match["desc"] for match in found if match] == [None, "Capturing batches (bs=256 avail_mem=9.04 GB)"]


def test_a_log_that_has_gone_is_no_reason_to_stop() -> None:
    write("text\n", to=10**6)
