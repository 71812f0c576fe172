from __future__ import annotations

import pytest

from launchmon_agent.sglang.prefix import Record, records, strip_control


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        (b"[2026-11-29 16:31:45 DP1 TP1] Init parallel begin.", "DP1 TP1"),
        (b"[16:31:45 TP3] Load weight begin.", "TP3"),
        (b"[2026-11-29 16:31:45.123 DP0 PP1 ATTN_CP2 MOE_DP0 TP1 EP1] x", "DP0 PP1 ATTN_CP2 MOE_DP0 TP1 EP1"),
        (b"[2026-11-29 16:31:45 TP0] INFO core.py:524: msg", "TP0"),
        (b"[2026-11-29 16:31:45] server_args=", None),
        (b"[gpu_id=3] Load weight begin.", "TP3"),
        (b"[gpu=0] Init nccl begin.", "TP0"),
        (b"[rank1]:W1129 16:10:04.933000 1129 torch/utils", "TP1"),
        (b"[rank1]:[E1129 16:18:30.79 ProcessGroupGloo.cpp:2948] x", "TP1"),
        (b"sglang-1  | [2026-11-29 16:31:45 TP1] x", "TP1"),
        (b"\x1b[31m[2026-11-29 16:31:45 TP1] x\x1b[0m\r\n", "TP1"),
        (b"  0%|          | 0/36 [00:00<?, ?it/s][2026-11-29 16:31:45 TP1] Capture", "TP1"),
        (b"[16:10:02] /project/cpp/tokenizer_info.cc:146: Warning: x", None),
        (b"Multi-thread loading shards: 100% Completed | 1/1 [00:00<00:00, 238.83it/s]", None),
        (b"", None),
        (b"\xff\x00[[[", None),
    ],
)
def test_the_first_rank_that_a_line_names(line: bytes, rank: str | None) -> None:
    found = records(strip_control(line.strip(b"\r\n")))
    named = [one.rank or f"TP{one.number}" for one in found if one.rank is not None or one.number is not None]
    assert [*named, None][0] == rank


def test_the_level_and_file_of_newer_builds_are_no_part_of_the_message() -> None:
    (record,) = records(b"[2026-11-29 16:31:45 TP0] INFO core.py:524: Init parallel begin.")
    assert record == Record(0, b"2026-11-29 16:31:45", "TP0", None, b"Init parallel begin.")


def test_records_on_one_line_and_the_bar_before_them() -> None:
    line = b" 50%|#| 1/2 [00:00<00:01, 1.00s/it][2026-11-29 16:31:45 TP0] one[2026-11-29 16:31:46 TP1] two"
    found = records(line)
    assert [(record.rank, record.text) for record in found] == [
        (None, b" 50%|#| 1/2 [00:00<00:01, 1.00s/it]"),
        ("TP0", b"one"),
        ("TP1", b"two"),
    ]
    assert [line[record.start :][:12] for record in found[1:]] == [b"[2026-11-29 "] * 2


def test_a_date_in_a_message_begins_no_record() -> None:
    (record,) = records(b"[2026-11-29 16:31:45 TP0] tic start time: 16:14:58, [2026-11-29] and [12:00]")
    assert record.text.endswith(b"[12:00]")
