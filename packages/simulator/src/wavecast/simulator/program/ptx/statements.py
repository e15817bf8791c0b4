"""PTX text to statements: comments, source lines, scopes and labels taken apart."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from wavecast.simulator.errors import AssemblyError
from wavecast.simulator.program.instruction import SourceLine

_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"')
_LOCATION = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)")
_FRAME = re.compile(r"([^\s@\[\]]+):(\d+):(\d+)")
_LABEL = re.compile(r"^\s*([$\w]+):(?!:)\s*")
_DECLARED = re.compile(r"\.reg\s+\.(\w+)\s+(.*)$")
_RANGE = re.compile(r"^([%$\w]+)<(\d+)>$")
_NUMBERED = re.compile(r"^(.*?)(\d+)$")


@dataclass(slots=True)
class Scope:
    """Names that a pair of braces declares.

    Attributes:
        number: Counts the scopes of a function; 0 is the function itself.
        names: Register or, with ``ranges``, prefix of numbered registers, to its type (``b32``, ``pred``).
        ranges: Prefix to the number of registers.
    """

    number: int
    names: dict[str, str] = field(default_factory=dict)
    ranges: dict[str, tuple[str, int]] = field(default_factory=dict)

    def declare(self, kind: str, names: str) -> None:
        """Take in a ``.reg`` directive."""
        for name in (part.strip() for part in names.split(",")):
            found = _RANGE.match(name)
            if found:
                self.ranges[found[1]] = kind, int(found[2])
            else:
                self.names[name] = kind

    def type_of(self, name: str) -> str | None:
        """Type of a register, or None if it is not declared here."""
        if name in self.names:
            return self.names[name]
        found = _NUMBERED.match(name)
        if found is None or found[1] not in self.ranges:
            return None
        kind, count = self.ranges[found[1]]
        return kind if int(found[2]) < count else None


@dataclass(frozen=True, slots=True)
class Statement:
    """One instruction of a function's body.

    Attributes:
        text: Without the semicolon.
        number: Line of the text on which it ends.
        frames: Where it stands in inlined code, innermost first.
        scopes: Scopes it is in, innermost first.
    """

    text: str
    number: int
    frames: tuple[SourceLine, ...]
    scopes: tuple[Scope, ...]


@dataclass(slots=True)
class Body:
    """A function's statements.

    Attributes:
        statements: In the order of the text.
        labels: Label, with the number of its scope, to the index of the statement that follows it.
        files: Path by the name that source lines use.
        variables: Declarations of memory inside the function, without the semicolon.
    """

    statements: list[Statement] = field(default_factory=list)
    labels: dict[tuple[str, int], int] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    variables: list[str] = field(default_factory=list)


def read_body(text: str, start: int) -> Body:
    """Read a function's body.

    Args:
        text: The whole PTX text.
        start: Position of the brace that opens the body.

    Raises:
        AssemblyError: The body has no end.
    """
    numbers = _files(text)
    body = Body(files={path.rpartition("/")[2]: path for path in numbers.values()})
    opened = 1
    scopes = [Scope(0)]
    frames: tuple[SourceLine, ...] = ()
    pending = ""
    first = text.count("\n", 0, start) + 1
    for number, raw in enumerate(text[start + 1 :].split("\n"), start=first):
        code, _, comment = raw.partition("//")
        if not pending and code.lstrip().startswith((".loc ", ".loc\t")):
            frames = _frames(code.strip(), comment, numbers)
            continue
        if not pending and code.lstrip().startswith(".file"):
            continue
        rest = f"{pending} {code}" if pending else code
        pending = ""
        while rest.strip():
            label = _LABEL.match(rest)
            if label:
                body.labels[label[1], scopes[0].number] = len(body.statements)
                rest = rest[label.end() :]
                continue
            rest = rest.lstrip()
            if rest[0] == "{":
                scopes.insert(0, Scope(opened))
                opened += 1
                rest = rest[1:]
            elif rest[0] == "}":
                scopes.pop(0)
                if not scopes:
                    return body
                rest = rest[1:]
            elif ";" not in rest:
                pending, rest = rest.strip(), ""
            else:
                statement, _, rest = rest.partition(";")
                _take(statement.strip(), number, frames, scopes, body)
    raise AssemblyError(f"line {first}: the function's body has no closing brace", hint="is the text complete?")


def _take(statement: str, number: int, frames: tuple[SourceLine, ...], scopes: list[Scope], body: Body) -> None:
    if not statement:
        return
    declared = _DECLARED.match(statement)
    if declared:
        scopes[0].declare(declared[1], declared[2])
    elif statement.startswith((".local", ".shared", ".const", ".global", ".param")):
        body.variables.append(statement)
    elif statement.startswith("."):
        # Pragmas and the like change no result.
        pass
    else:
        body.statements.append(Statement(" ".join(statement.split()), number, frames, tuple(scopes)))


def split_top(text: str) -> list[str]:
    """Parts between commas that no bracket or brace holds together."""
    return list(_parts(text))


def _parts(text: str) -> Iterator[str]:
    depth, begin = 0, 0
    for position, letter in enumerate(text):
        if letter in "[{(":
            depth += 1
        elif letter in "]})":
            depth -= 1
        elif letter == "," and not depth:
            yield text[begin:position].strip()
            begin = position + 1
    if text[begin:].strip():
        yield text[begin:].strip()


def _files(text: str) -> dict[int, str]:
    return {int(number): path for number, path in _FILE.findall(text)}


def _frames(line: str, comment: str, files: Mapping[int, str]) -> tuple[SourceLine, ...]:
    """The call chain of inlined code, innermost first, which the compiler writes as a comment."""
    found = _FRAME.findall(comment)
    if found:
        return tuple(SourceLine(file, int(number), int(column)) for file, number, column in found)
    match = _LOCATION.match(line)
    if match is None:
        return ()
    return (SourceLine(files.get(int(match[1]), "?").rpartition("/")[2], int(match[2]), int(match[3])),)
