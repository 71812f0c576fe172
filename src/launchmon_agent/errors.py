"""The one error that is meant for a person: what happened, the likely cause, and one command to run."""

from __future__ import annotations


class Refused(Exception):
    """Something asked for cannot be done, and nothing was changed.

    ``what`` says what happened, ``cause`` the likely reason, ``try_`` one command or step that helps; the last two may
    be empty. It crosses the pipe as JSON and ends as three lines on stderr or a dialog, never as a traceback.
    """

    def __init__(self, what: str, cause: str = "", try_: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.cause = cause
        self.try_ = try_

    def as_json(self) -> dict[str, str]:
        return {"what": self.what, "cause": self.cause, "try": self.try_}

    @classmethod
    def from_json(cls, body: object) -> Refused:
        if not isinstance(body, dict):
            return cls(str(body))
        return cls(str(body.get("what", "")), str(body.get("cause", "")), str(body.get("try", "")))
