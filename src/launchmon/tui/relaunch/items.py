"""The rows of the relaunch dialog that can be selected, and what each is. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from launchmon.tui.relaunch.draft import Base, Draft, Flag, Remedy, Toggle


@dataclass(frozen=True)
class Group:
    """The toggles of one concern; ``changed`` counts those that are switched by the draft."""

    concern: str
    count: int
    changed: int
    open: bool


@dataclass(frozen=True)
class Variable:
    """A change of the environment that the run was started with."""

    name: str
    value: str | None  # None: it was removed


@dataclass(frozen=True)
class Chosen:
    """A choice, to be looked at and taken back."""

    word: str


Subject = Remedy | Chosen | Group | Toggle | Flag | Variable


@dataclass(frozen=True)
class Item:
    id: str  # stays the same while the draft changes
    section: str
    subject: Subject


def items(base: Base, draft: Draft, opened: Collection[str]) -> list[Item]:
    """All of them, in the order of use. ``opened``: concerns of which the toggles are listed."""
    out = [Item(f"remedy {at}", "remedies", remedy) for at, remedy in enumerate(base.remedies)]
    remedied = {word for remedy in base.remedies if draft.has(remedy.change) for word in remedy.change}
    out += [Item(f"chosen {word}", "chosen", Chosen(word)) for word in draft.words if word not in remedied]
    for concern in dict.fromkeys(toggle.concern for toggle in base.toggles):
        group = [toggle for toggle in base.toggles if toggle.concern == concern]
        changed = sum(draft.of(toggle.name) is not None for toggle in group)
        is_open = concern in opened
        out.append(Item(f"group {concern}", "toggles", Group(concern, len(group), changed, is_open)))
        if is_open:
            out += [Item(f"toggle {toggle.name}", "toggles", toggle) for toggle in group]
    flags = {flag.name: flag for flag in base.flags}  # of a flag that is repeated the last one counts
    out += [Item(f"flag {flag.name}", "command", flag) for flag in flags.values()]
    return out + [Item(f"variable {name}", "variables", Variable(name, value)) for name, value in base.variables]


def flip(item: Item, draft: Draft) -> bool:
    """What Space does. False where it does nothing."""
    match item.subject:
        case Remedy(change=change):
            draft.flip(change)
        case Chosen(word=word):
            draft.take(word)
        case Toggle():
            draft.switch(item.subject)
        case Flag(name=name):
            draft.flip((f"drop {name}",))
        case Variable(name=name, value=value) if value is not None:
            draft.flip((f"unset {name}",))
        case _:
            return False
    return True


def editable(item: Item, draft: Draft) -> str:
    """The text that is offered for editing: a choice that sets what the item is about."""
    match item.subject:
        case Remedy(change=change):
            return change[0]
        case Chosen(word=word):
            return word
        case Toggle(name=name, change=change, on=on, value=value):
            return draft.of(name) or (f"{name}={value}" if on and value else change)
        case Flag(name=name, word=word):
            chosen = draft.of(name)
            return word if chosen is None or chosen.startswith("drop ") else chosen
        case Variable(name=name, value=value):
            return f"{name}={value or ''}"
    return ""
