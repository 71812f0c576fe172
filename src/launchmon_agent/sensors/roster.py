"""What each process of a run is: launcher, rank (by its title or its place), helper, or a child of one of these."""

from __future__ import annotations

from collections.abc import Sequence

from launchmon_agent.sensors import proc
from launchmon_agent.sensors.kinds import kind_of
from launchmon_agent.sensors.members import RESCAN_S, Member, Members, started
from launchmon_agent.sglang import titles
from launchmon_agent.sglang.titles import Name, Title, coordinates, name_children, read_title

_YOUNG_S = 3.0
"""A process is read again this long: between fork and exec it shows its parent's command line and name."""

_MULTIPROCESSING = (titles.SCHEDULER, titles.DETOKENIZER, titles.DP_CONTROLLER, titles.SPAWNING)
_ORDER = (
    (titles.LAUNCHER,),
    (titles.SCHEDULER, titles.SPAWNING),
    (titles.DP_CONTROLLER,),
    (titles.DETOKENIZER,),
    (titles.TOKENIZER,),
    (titles.HELPER,),
)


class Roster:
    """Names the members of a run. Those with a name are listed; the others are children of the nearest one above."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._expected: tuple[str, ...] = ()
        self._places: dict[str | None, int | None] = {}  # of ranks asked for so far
        self._named_from: list[
            tuple[Member, Title | None, Name | None, bool]
        ] = []  # all that the names of multiprocessing children were last made from
        self._listed_from: list[tuple[Member, Name]] = []
        self._listed: dict[Member, Name] = {}
        self._started: list[Member] = []  # multiprocessing children ever seen; ended ones keep their name and place
        self.ended: list[Member] = []  # with a name, not yet fetched

    def expect(self, ranks: Sequence[str]) -> None:
        if tuple(ranks) != self._expected:
            self._expected = tuple(ranks)
            self._places.clear()
            self._named_from.clear()
            self._listed_from.clear()

    def update(self, now: float) -> None:
        """Look who is there and name everyone."""
        ended = self._members.refresh(now)
        unknown = [member for member in ended if member.titled_at is None]  # ended before we saw it alive
        for member in sorted([*self._members.alive.values(), *unknown], key=started):
            self._read_title(member, now)
            self._sort_in(member)
        self._started.sort(key=started)
        alive = self._members.alive
        named_from = [(one, one.title, one.name, one.pid in alive) for one in self._started]
        if named_from != self._named_from:  # in most seconds nobody has come, gone or got a title
            self._named_from = named_from
            self._name_started()
        self._keep_ended(ended)

    def check(self) -> None:
        """Look only whether those known are still there."""
        self._keep_ended(self._members.check())

    def listed(self) -> dict[Member, Name]:
        """Those alive that have a name: launcher first, then ranks in order, then the rest."""
        named = [(member, member.name) for member in self._members.alive.values() if member.name]
        if named != self._listed_from:
            self._listed_from = named
            self._listed = dict(sorted(named, key=self._order))
        return self._listed

    def below(self) -> dict[Member, list[Member]]:
        """The children that are not listed, by the listed process they work for. Orphans of an ended one have none."""
        found: dict[Member, list[Member]] = {}
        for member in self._members.alive.values():
            if member.name is None:
                above = next((one for one in member.ancestors() if one.name), None)
                if above is not None and above.pid in self._members.alive:
                    found.setdefault(above, []).append(member)
        return found

    def place(self, rank: str | None) -> int | None:
        """Of a rank among the expected ones, in start order."""
        if rank not in self._places:
            own = coordinates(rank or "").items()
            fits = (place for place, tag in enumerate(self._expected) if coordinates(tag).items() <= own)
            self._places[rank] = next(fits, None)
        return self._places[rank]

    def _read_title(self, member: Member, now: float) -> None:
        if member.titled_at is not None and not self._may_have_changed(member, now):
            return
        argv = tuple(proc.cmdline(member.pid))
        if not argv and member.titled_at is not None:
            return  # it is ending; what it was is known better than its comm tells
        if member.titled_at is None:
            member.seen_at = now
        member.titled_at, member.comm, member.argv = now, member.stat.comm, argv
        title = read_title(argv, member.stat.comm)
        if member.parent is not None and _forked(argv, title, member.stat.comm, member.parent):
            member.title, member.kind = None, member.parent.kind
        else:
            member.title = title
            member.kind = None if title else kind_of(argv, member.stat.comm)

    def _may_have_changed(self, member: Member, now: float) -> bool:
        """exec and setproctitle nearly always change comm as well, which comes for nothing; the rest is looked up."""
        awaits_title = member.title is not None and member.title.role == titles.SPAWNING and member in self._started
        young = 0 <= now - member.seen_at < _YOUNG_S
        due = not 0 <= now - (member.titled_at or now) < RESCAN_S
        return awaits_title or young or due or member.comm != member.stat.comm

    def _sort_in(self, member: Member) -> None:
        title = member.title
        named = title is not None and title.role in _MULTIPROCESSING
        ours = title is not None and named and (title.role != titles.SPAWNING or self._may_be_rank(member))
        if not ours and member in self._started:
            self._started.remove(member)  # an exec made it something else
        if member.is_launcher:
            member.name = Name(titles.LAUNCHER)
        elif ours:
            if member not in self._started:
                self._started.append(member)
        elif title is None or named:
            member.name = None
        elif title.role == titles.LAUNCHER:
            member.name = Name(titles.HELPER)  # a server inside a server: sglang-router's workers
        else:
            member.name = Name(title.role)

    def _may_be_rank(self, member: Member) -> bool:
        """Ranks use multiprocessing too; only the launcher's and the controller's children are of the run itself."""
        parent = member.parent
        return parent is None or (
            parent.name is not None and parent.name.role in (titles.LAUNCHER, titles.DP_CONTROLLER)
        )

    def _name_started(self) -> None:
        top = [member for member in self._started if _controller(member) is None]
        self._name(titles.LAUNCHER, top)
        for controller in top:
            self._name(titles.DP_CONTROLLER, [child for child in self._started if _controller(child) is controller])

    def _name(self, parent: str, children: Sequence[Member]) -> None:
        alive = self._members.alive
        known = [child.name if child.name and child.pid not in alive else child.title for child in children]
        names = name_children(parent, [one for one in known if one], self._expected)
        for member, name in zip(children, names, strict=True):
            member.name = name

    def _keep_ended(self, ended: Sequence[Member]) -> None:
        self.ended += [member for member in ended if member.name]

    def _order(self, named: tuple[Member, Name]) -> tuple[object, ...]:
        member, name = named
        group = next(index for index, roles in enumerate(_ORDER) if name.role in roles)
        place = self.place(name.rank)
        own = tuple(sorted(coordinates(name.rank or "").items()))
        return group, len(self._expected) if place is None else place, own, started(member)


def _forked(argv: tuple[str, ...], title: Title | None, comm: str, parent: Member) -> bool:
    """Whether these are the parent's arguments: of a child that has not become something else by exec yet.

    The parent may have taken its title after it was read and before it forked; so it is asked once more. In the midst
    of an exec, and in a zombie, there are no arguments; the parent's comm is still there then.
    """
    if title is None:
        return bool(argv) and argv == parent.argv
    if not argv:
        return comm == (proc.stat(parent.pid) or parent.stat).comm
    return argv in (parent.argv, tuple(proc.cmdline(parent.pid)))


def _controller(member: Member) -> Member | None:
    return next((one for one in member.ancestors() if one.name and one.name.role == titles.DP_CONTROLLER), None)
