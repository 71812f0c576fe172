"""Everything a person can do in the TUI, once. Keys, footer, command palette and help are made from this table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Action:
    """One thing to do. ``keys`` are Textual's key names; a keymap names actions by ``id``."""

    id: str
    keys: tuple[str, ...]
    label: str
    """One to three words, for the footer and the palette."""
    help: str
    """A sentence, for the help screen and the palette."""
    scope: str
    """Where it works: app (everywhere), run (the main screen), nodes (the same, of a run on several), panel (a focused
    panel), paging (screens where Space turns the page), replay (the main screen over a recording), stacks, verdict,
    relaunch or ledger (the screens of that name) or home (the list of runs)."""
    footer: int = 0
    """Place in the footer, from 1 (the last to leave when room is short); 0 keeps it out."""
    confirm: bool = False
    """Asks before it acts."""
    changes: bool = False
    """Changes something on the target; refused where a session is read-only."""
    takes_key: bool = False
    """The key that was pressed is the action's argument."""

    @property
    def shown_keys(self) -> str:
        """The keys as a person knows them."""
        if self.takes_key:
            return f"{self.keys[0]}-{self.keys[-1]}"
        return " ".join(dict.fromkeys(key_name(key) for key in self.keys))


_KEY_NAMES = {
    "slash": "/",
    "question_mark": "?",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "home": "Home",
    "end": "End",
    "enter": "Enter",
    "escape": "Esc",
    "tab": "Tab",
    "shift+tab": "⇧Tab",
    "space": "Space",
    "plus": "+",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
    "backslash": "\\",
    "exclamation_mark": "!",
    "ampersand": "&",
    "colon": ":",
    "comma": ",",
    "full_stop": ".",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "left_parenthesis": "(",
    "right_parenthesis": ")",
    "minus": "-",
    "at": "@",
    "shift+up": "⇧↑",
    "shift+down": "⇧↓",
}


def key_name(key: str) -> str:
    """``slash`` → ``/``, ``ctrl+c`` → ``^C``."""
    if key.startswith("ctrl+"):
        return f"^{key[5:].upper()}"
    if key[:1] == "f" and key[1:].isdigit():
        return key.upper()
    return _KEY_NAMES.get(key, key)


ACTIONS: tuple[Action, ...] = (
    # everywhere
    Action("help", ("question_mark", "f1"), "help", "Explain this screen, the focused panel and its keys.", "app", 2),
    Action("detach", ("q",), "detach", "Leave launchmon. The server goes on.", "app", 1),
    Action(
        "quit-now",
        ("ctrl+c",),
        "detach at once",
        "Leave from anywhere, also out of a dialog. The server goes on.",
        "app",
    ),
    Action("reconnect", ("L",), "reconnect", "Try a lost link again at once, instead of waiting.", "app"),
    Action("palette", ("ctrl+p",), "commands", "Find an action or a theme by its name.", "app"),
    # the run
    Action(
        "stacks",
        ("d",),
        "stacks",
        "Read the stacks of all ranks now, and show what each waits for.",
        "run",
        5,
    ),
    Action(
        "stacks-native",
        ("D",),
        "native stacks",
        "The same with frames of C and C++. Pauses each rank for a moment longer.",
        "run",
    ),
    Action(
        "kill",
        ("k",),
        "kill",
        "Stop the server and everything it started. Lists what will end, and asks first.",
        "run",
        3,
        confirm=True,
        changes=True,
    ),
    Action(
        "relaunch",
        ("r",),
        "relaunch",
        "Start the run again with something changed: remedies, flags, variables. Shows what changes, and asks first.",
        "run",
        4,
        confirm=True,
        changes=True,
    ),
    Action(
        "search",
        ("slash",),
        "search",
        "Search the whole log from here on, and count where it occurs. ^R in the prompt: regular expressions.",
        "run",
        6,
    ),
    Action("search-back", ("backslash",), "search back", "Search the log backwards from here.", "run"),
    Action("search-next", ("n",), "next hit", "Go to the next place where the search text occurs.", "run"),
    Action("search-previous", ("N",), "previous hit", "Go to the previous place where the search text occurs.", "run"),
    Action("error-next", ("e",), "next error", "Go to the next error in the log.", "run", 8),
    Action("error-previous", ("E",), "previous error", "Go to the previous error in the log.", "run"),
    Action("error-first", ("exclamation_mark",), "first error", "Go to the first error in the log.", "run"),
    Action(
        "traceback-next",
        ("t",),
        "traceback",
        "Go to the first traceback of any rank; from there to the next one.",
        "run",
    ),
    Action("log-phase-next", ("right_curly_bracket",), "next phase", "Go to where the next phase begins.", "run"),
    Action(
        "log-phase-previous",
        ("left_curly_bracket",),
        "previous phase",
        "Go to where this phase, or the one before, begins.",
        "run",
    ),
    Action(
        "go-to",
        ("colon",),
        "go to",
        "Go to a line, a share (62%), a time as the log prints it (18:00:41), 5 minutes before its end (-5m), 90 s "
        "into the launch (+90s), a phase, the first error or traceback.",
        "run",
    ),
    Action("verdict", ("v",), "verdict", "Show the whole verdict: evidence, what is ruled out, what to do.", "run", 7),
    Action(
        "attempts",
        ("a",),
        "attempts",
        "Show all attempts of this series beside each other: changes, times, verdicts.",
        "run",
        10,
    ),
    Action("filter", ("f",), "filter rank", "Show the log of one rank after the other, then of all again.", "run", 11),
    Action(
        "filter-rank",
        tuple("0123456789"),
        "rank by number",
        "Show the log of the rank in this place of the list; again to show all.",
        "run",
        takes_key=True,
    ),
    Action(
        "filter-level",
        ("l",),
        "filter level",
        "Show warnings and errors only, then errors only, then all again.",
        "run",
        14,
    ),
    Action(
        "filter-text",
        ("ampersand",),
        "filter text",
        "Show only lines with a text; nothing shows all. ^R in the prompt: regular expressions.",
        "run",
    ),
    Action("bookmark", ("m",), "bookmark", "Bookmark the line that is pointed at, or take its bookmark away.", "run"),
    Action("bookmark-next", ("u",), "next bookmark", "Go to the next bookmark.", "run"),
    Action("bookmark-previous", ("U",), "previous bookmark", "Go to the previous bookmark.", "run"),
    Action("point-up", ("shift+up",), "point up", "Point at the line above, to copy or bookmark it.", "run"),
    Action("point-down", ("shift+down",), "point down", "Point at the line below. A click points too.", "run"),
    Action(
        "copy-lines",
        ("y",),
        "copy",
        "Copy the line that is pointed at, or else all that are on the screen, through the terminal.",
        "run",
    ),
    Action("copy-bookmarks", ("Y",), "copy bookmarks", "Copy all bookmarked lines, through the terminal.", "run"),
    Action(
        "fold-ranks",
        ("x",),
        "fold ranks",
        "Show a line that several ranks wrote once, with their number (×8), or each again.",
        "run",
        15,
    ),
    Action("wrap", ("w",), "wrap", "Wrap long log lines, or cut them at the edge.", "run", 13),
    Action(
        "raw",
        ("R",),
        "raw",
        "Show log lines as they lie in the file, colours and all refreshes of a bar as visible text, or tidied again.",
        "run",
    ),
    Action(
        "pager",
        ("o",),
        "pager",
        "Open the log in $PAGER at this place: the file itself on this machine, 2,000 lines of it from another.",
        "run",
    ),
    Action(
        "expand", ("z",), "expand", "Give the focused panel the whole middle of the screen, or take it back.", "run", 12
    ),
    Action("hide", ("h",), "hide", "Hide the focused panel on screens of this size, now and in future.", "run"),
    Action("show-panels", ("H",), "show all", "Show the panels that are hidden.", "run"),
    Action("pan-left", ("left",), "left", "Move a log that is not wrapped to the left.", "run"),
    Action("pan-right", ("right",), "right", "Move a log that is not wrapped to the right.", "run"),
    Action(
        "rewind",
        ("ctrl+r",),
        "look back",
        "Show the run as it was, with a time line to move along; in there, back to the present.",
        "run",
        19,
    ),
    Action(
        "report",
        ("s",),
        "report",
        "Write all about the run into two files of the current directory, without secrets: Markdown for an issue, and "
        "an archive with the recording.",
        "run",
        20,
    ),
    Action("reset", ("escape",), "back", "Close the search, then the filter, then the expanded panel.", "run"),
    # the run, on several nodes
    Action("log-node", ("c",), "next node", "Show the log of the next node.", "nodes", 9),
    # a focused panel
    Action("focus-next", ("tab",), "next panel", "Move the focus to the next panel.", "panel"),
    Action("focus-previous", ("shift+tab",), "previous panel", "Move the focus to the panel before.", "panel"),
    Action("line-up", ("up",), "up", "One line up.", "panel"),
    Action("line-down", ("down",), "down", "One line down.", "panel"),
    Action("page-up", ("pageup",), "page up", "One page up.", "panel"),
    Action("page-down", ("pagedown",), "page down", "One page down.", "panel"),
    Action("to-start", ("home", "g"), "start", "To the beginning; in the log, of the whole file.", "panel"),
    Action("to-end", ("end", "G"), "end", "To the end; the log then follows what is written.", "panel"),
    Action("page-on", ("space",), "page down", "One page down, as in a pager.", "paging"),
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
    # the relaunch
    Action(
        "start",
        ("enter", "ctrl+r"),
        "start",
        "Start the next attempt with what is chosen. Says what ends first, and asks.",
        "relaunch",
        4,
        confirm=True,
        changes=True,
    ),
    Action("flip", ("space", "x"), "on/off", "Switch the selected line on or off, or open its group.", "relaunch", 5),
    Action(
        "add-change",
        ("a", "plus"),
        "add",
        "Type a change: --flag=VALUE, drop --flag, NAME=VALUE, unset NAME.",
        "relaunch",
        6,
    ),
    Action("edit-change", ("e",), "edit", "Give the selected flag or variable another value.", "relaunch", 7),
    Action("copy-command", ("y",), "copy", "Copy the exact command line, through the terminal.", "relaunch", 8),
    Action(
        "ladder",
        ("l",),
        "ladder",
        "Try the remedies one at a time, unattended, until a launch is ready. Says what it will do, and asks first.",
        "relaunch",
        10,
        confirm=True,
        changes=True,
    ),
    Action("take-back", ("u",), "none", "Take all changes back: the command as it was.", "relaunch", 9),
    Action("leave-relaunch", ("escape",), "back", "Leave. Nothing is ended or started.", "relaunch", 3),
    Action("choice-up", ("up",), "up", "Select the line above.", "relaunch"),
    Action("choice-down", ("down",), "down", "Select the line below.", "relaunch"),
    Action("choice-first", ("home", "g"), "first", "Select the first line.", "relaunch"),
    Action("choice-last", ("end", "G"), "last", "Select the last line.", "relaunch"),
    Action("plan-up", ("pageup",), "page up", "One page up in what changes.", "relaunch"),
    Action("plan-down", ("pagedown",), "page down", "One page down in what changes.", "relaunch"),
    # the attempts
    Action(
        "relaunch-from",
        ("enter", "r"),
        "relaunch from here",
        "Start again with the selected attempt's command, with or without further changes. Asks first.",
        "ledger",
        4,
        confirm=True,
        changes=True,
    ),
    Action(
        "stop-ladder",
        ("s",),
        "stop the ladder",
        "Let the ladder begin nothing more. The attempt that runs goes on.",
        "ledger",
        6,
    ),
    Action("copy-attempt", ("y",), "copy", "Copy the selected attempt's command line.", "ledger", 5),
    Action("leave-attempts", ("escape", "a"), "back", "Back to the run.", "ledger", 3),
    Action("attempt-up", ("up",), "up", "Select the attempt above.", "ledger"),
    Action("attempt-down", ("down",), "down", "Select the attempt below.", "ledger"),
    Action("attempt-page-up", ("pageup",), "page up", "One page up in what is said of it.", "ledger"),
    Action("attempt-page-down", ("pagedown", "space"), "page down", "One page down in what is said of it.", "ledger"),
    # the list of runs
    Action(
        "attach",
        ("enter",),
        "attach",
        "Watch the selected run, replay it where it has ended, or look for runs on the machine.",
        "home",
        3,
    ),
    Action("refresh", ("r",), "look again", "Look again for runs on the machine that is shown.", "home", 4),
    Action(
        "new-launch",
        ("n",),
        "new launch",
        "Start a server by a form: the model, the sizes, the usual flags. It shows the command that it builds.",
        "home",
        5,
    ),
    Action("leave-place", ("escape",), "back", "From another machine back to the list of all.", "home"),
    Action("select-up", ("up",), "up", "Select the run or machine above.", "home"),
    Action("select-down", ("down",), "down", "Select the run or machine below.", "home"),
    # the form for a launch
    Action(
        "launch-start",
        ("ctrl+r", "s"),
        "start",
        "Start the server with what is filled in. It goes on when launchmon is closed.",
        "launch",
        4,
        changes=True,
    ),
    Action("field-edit", ("enter", "e"), "fill in", "Fill in the selected row, or turn its switch.", "launch", 5),
    Action("field-flip", ("space", "x"), "on/off", "Take the value of the selected row out, or turn it.", "launch", 6),
    Action(
        "field-add", ("a", "plus"), "add", "Type any other flag or variable: --flag=VALUE, NAME=VALUE.", "launch", 7
    ),
    Action("launch-copy", ("y",), "copy", "Copy the exact command line, through the terminal.", "launch", 8),
    Action(
        "launch-anyway",
        ("exclamation_mark",),
        "start anyway",
        "Start it though something speaks against it.",
        "launch",
        9,
        changes=True,
    ),
    Action("leave-launch", ("escape",), "back", "Back to the list. Nothing is started.", "launch", 3),
    Action("field-up", ("up",), "up", "Select the row above.", "launch"),
    Action("field-down", ("down",), "down", "Select the row below.", "launch"),
    Action("field-first", ("home", "g"), "first", "Select the first row.", "launch"),
    Action("field-last", ("end", "G"), "last", "Select the last row.", "launch"),
    Action("result-up", ("pageup",), "page up", "One page up in the command and what is said of it.", "launch"),
    Action("result-down", ("pagedown",), "page down", "One page down in the command and what is said of it.", "launch"),
)


SCOPES = {
    "app": "Everywhere",
    "run": "The run",
    "nodes": "A run on several nodes",
    "panel": "A panel, or a list, that has the focus",
    "paging": "Where Space turns the page: the run, the stacks, the verdict",
    "replay": "A recording",
    "stacks": "The stacks",
    "verdict": "The verdict",
    "relaunch": "The relaunch",
    "ledger": "The attempts",
    "home": "The list of runs",
    "launch": "A new launch",
}
"""Every scope, with its name for people, in the order in which they are listed."""

TOGETHER = (
    ("run", "panel", "paging"),
    ("run", "nodes", "panel", "paging"),
    ("replay", "run", "panel"),
    ("stacks", "panel", "paging"),
    ("verdict", "panel", "paging"),
    ("relaunch",),
    ("ledger",),
    ("home",),
    ("launch",),
)
"""The scopes of each screen: keys of one row, and those of app, work at the same time and differ."""


def in_scope(*scopes: str) -> list[Action]:
    """Actions of these scopes in the order of the table."""
    return [action for action in ACTIONS if action.scope in scopes]


def by_id(id_: str) -> Action:
    return next(action for action in ACTIONS if action.id == id_)
