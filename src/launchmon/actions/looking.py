"""Where a closer look is taken: a recording, the stacks, the verdict."""

from __future__ import annotations

from launchmon.actions.action import Action

LOOKING: tuple[Action, ...] = (
    # a recording
    Action(
        "play",
        ("space", "p"),
        "play",
        "Let the recording play, or pause it. At its end it begins again.",
        "replay",
        104,
    ),
    Action(
        "moment-next", ("right_square_bracket",), "next mark", "Go to the next mark on the time line.", "replay", 105
    ),
    Action(
        "moment-previous",
        ("left_square_bracket",),
        "previous mark",
        "Go to the mark on the time line before this moment.",
        "replay",
        106,
    ),
    Action("faster", ("plus", "equals_sign"), "faster", "Play twice as fast.", "replay", 107),
    Action("slower", ("minus",), "slower", "Play half as fast.", "replay", 108),
    Action("second-next", ("greater_than_sign",), "a second on", "One second on.", "replay", 109),
    Action("second-previous", ("less_than_sign",), "a second back", "One second back.", "replay", 110),
    Action("event-next", ("full_stop",), "an event on", "Over the next event of the recording.", "replay", 111),
    Action("event-previous", ("comma",), "an event back", "Back over one event of the recording.", "replay", 112),
    Action(
        "moment-go",
        ("at",),
        "go to time",
        "Go to a time: 18:05:12, 1m30s from the start, -30s before the end.",
        "replay",
        113,
    ),
    Action("replay-start", ("left_parenthesis",), "start", "To the beginning of the recording.", "replay"),
    Action("replay-end", ("right_parenthesis",), "end", "To the end of the recording.", "replay"),
    # the stacks
    Action("dump", ("d",), "again", "Read the stacks of all ranks again.", "stacks", 4),
    Action("dump-native", ("D",), "with native", "Read them again with frames of C and C++.", "stacks", 12),
    Action(
        "locals",
        ("l",),
        "locals",
        "Read them again with the local variables of the selected rank; secrets in them are hidden.",
        "stacks",
    ),
    Action("fold", ("f",), "fold", "Hide frames that only carry others, or show them.", "stacks", 9),
    Action(
        "threads", ("t",), "threads", "Show the other threads of the selected ranks, or the ranks again.", "stacks", 6
    ),
    Action("compare", ("c",), "compare", "Show each rank in this dump beside the dump before.", "stacks", 5),
    Action("older", ("left_square_bracket",), "older", "Show the dump before this one.", "stacks", 7),
    Action("newer", ("right_square_bracket",), "newer", "Show the dump after this one.", "stacks", 8),
    Action(
        "find",
        ("slash",),
        "filter",
        "Show only what holds a text: a rank, a function, a file, a meaning.",
        "stacks",
        11,
    ),
    Action(
        "select-rank",
        tuple("0123456789"),
        "rank by number",
        "Select the ranks that are where the rank in this place is.",
        "stacks",
        takes_key=True,
    ),
    Action("copy", ("y",), "copy", "Copy the selected entry, through the terminal.", "stacks", 13),
    Action("copy-all", ("Y",), "copy all", "Copy the whole dump, through the terminal.", "stacks"),
    Action("save", ("s",), "save", "Save this dump as text, as JSON, or for speedscope.", "stacks", 10),
    Action(
        "leave-stacks",
        ("escape",),
        "back",
        "Close the filter, then threads or comparison, then the screen.",
        "stacks",
        3,
    ),
    # the verdict
    Action("verdict-stacks", ("d",), "stacks", "Read the stacks of all ranks now.", "verdict", 4),
    Action(
        "verdict-relaunch",
        ("r",),
        "relaunch",
        "Start the run again with something changed, the first remedy switched on.",
        "verdict",
        5,
        confirm=True,
        changes=True,
    ),
    Action("leave-verdict", ("escape", "v"), "back", "Back to the run.", "verdict", 3),
)
