"""The zip archives that torch has written since 1.6: where each member is, from a few small reads.

Zip files can be read in several ways at once: from the front or from the back, by the directory or by the
headers before each member, with junk before, after and between. So two readers of one file can see different
weights. Only unambiguous files are accepted: one directory, which ends where the file's last record
begins; no comment; a first member at byte 0; each name once, whatever its case; and, for every member that is
read, a local header that says the same as the directory.
"""

from __future__ import annotations

import stat
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final, NoReturn

from modelkin.errors import HeaderError, UnsupportedFormat
from modelkin.message import Message, say
from modelkin.source import ByteRange
from modelkin.untrusted import name_problem, plain, quoted

MAX_DIRECTORY_BYTES = 64 << 20
MAX_MEMBERS = 500_000

END = struct.Struct("<4sHHHHIIH")
LOCATOR = struct.Struct("<4sIQI")
END64 = struct.Struct("<4sQHHIIQQQQ")
ENTRY = struct.Struct("<4sHHHHHHIIIHHHHHII")
LOCAL = struct.Struct("<4sHHHHHIIIHH")
TAIL_BYTES = END.size + LOCATOR.size + END64.size
"""How much of a file's end is needed to find its directory."""

_END_MAGIC, _LOCATOR_MAGIC, _END64_MAGIC = b"PK\x05\x06", b"PK\x06\x07", b"PK\x06\x06"
_ENTRY_MAGIC, _LOCAL_MAGIC = b"PK\x01\x02", b"PK\x03\x04"
_FULL16, _FULL32 = 0xFFFF, 0xFFFFFFFF
_ZIP64_EXTRA = 1
# Two bits set by the compressor, sizes after the data, names in UTF-8.
_KNOWN_FLAGS: Final = 0b110 | 1 << 3 | 1 << 11
_ENCRYPTED: Final = 1 | 1 << 6 | 1 << 13
_SIZES_LATER: Final = 1 << 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One file of an archive, as the directory describes it."""

    name: str
    raw_name: bytes = field(repr=False)
    offset: int
    """Of its local header."""
    stop: int
    """Where the next member or the directory begins: it ends before that."""
    size: int
    method: int
    flags: int
    crc: int

    @property
    def header(self) -> ByteRange:
        """The bytes of the local header and the name."""
        return ByteRange(self.offset, min(self.stop, self.offset + LOCAL.size + len(self.raw_name)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """The directory of a torch file."""

    file: str
    root: str
    """The folder in which all members are, without the slash."""
    members: Mapping[str, Member] = field(repr=False)
    """By name below that folder."""

    @property
    def is_script(self) -> bool:
        """Whether it holds a TorchScript program besides the weights."""
        return "constants.pkl" in self.members

    def data_of(self, member: Member, header: bytes) -> ByteRange:
        """Return where a member's data lies, after comparing its local header with the directory.

        Raises `FormatError` if they say different things, or the data is compressed or overlaps something
        else.
        """
        where = say("part.member", name=quoted(member.name))
        if len(header) < LOCAL.size + len(member.raw_name) or not header.startswith(_LOCAL_MAGIC):
            fail(self.file, say("problem.zip-local", where=where, position=member.offset))
        _, _, flags, method, _, _, crc, packed, size, n_name, n_extra = LOCAL.unpack_from(header)
        if method or member.method:
            raise UnsupportedFormat(
                plain(self.file),
                say("problem.zip-compressed", where=where),
                hint=say("hint.save-again"),
            )
        later = flags & _SIZES_LATER
        expected = {member.size, _FULL32, 0} if later else {member.size, _FULL32}
        if flags != member.flags or (crc != member.crc and not (later and crc == 0)):
            fail(self.file, say("problem.zip-different", where=where))
        if not {size, packed} <= expected:
            fail(self.file, say("problem.zip-local-size", where=where, n=size, m=member.size))
        if header[LOCAL.size : LOCAL.size + n_name] != member.raw_name:
            fail(self.file, say("problem.zip-local-name", where=where))
        start = member.offset + LOCAL.size + n_name + n_extra
        if start + member.size > member.stop:
            fail(self.file, say("problem.zip-overlap", where=where))
        return ByteRange(start, start + member.size)


def find_directory(tail: bytes, *, file: str, file_size: int) -> tuple[ByteRange, int]:
    """Return where the directory lies, and how many entries it has.

    `tail` is the file's last `TAIL_BYTES` bytes, or all of a shorter file.
    """
    hint = say("hint.cut-or-more")
    if len(tail) < END.size or tail[-END.size : -END.size + 4] != _END_MAGIC:
        raise HeaderError(plain(file), say("problem.zip-no-end"), hint=hint)
    _, disk, first_disk, here, count, length, offset, comment = END.unpack(tail[-END.size :])
    if disk or first_disk or here != count or comment:
        fail(file, say("problem.zip-disks"))
    end = file_size - END.size
    locator = tail[-END.size - LOCATOR.size : -END.size]
    if locator.startswith(_LOCATOR_MAGIC):
        end = file_size - TAIL_BYTES
        large = tail[-TAIL_BYTES : -END.size - LOCATOR.size]
        if len(large) < END64.size or not large.startswith(_END64_MAGIC):
            fail(file, say("problem.zip-large"))
        if LOCATOR.unpack(locator)[1:] != (0, end, 1):
            fail(file, say("problem.zip-locator"))
        _, rest, _, _, disk, first_disk, here, count64, length64, offset64 = END64.unpack(large)
        if rest != END64.size - 12 or disk or first_disk or here != count64:
            fail(file, say("problem.zip-large-odd"))
        for small, wide, full in (
            (count, count64, _FULL16),
            (length, length64, _FULL32),
            (offset, offset64, _FULL32),
        ):
            if small not in (full, wide):
                fail(file, say("problem.zip-records", first=small, second=wide))
        count, length, offset = count64, length64, offset64
    if length > MAX_DIRECTORY_BYTES or count > MAX_MEMBERS:
        fail(file, say("problem.zip-entries", count=count, n=length))
    if offset + length != end:
        raise HeaderError(
            plain(file), say("problem.zip-directory-end", stop=offset + length, end=end), hint=hint
        )
    return ByteRange(offset, end), count


def parse_directory(data: bytes, *, place: ByteRange, count: int, file: str) -> Archive:
    """Read the directory, and refuse one that could be understood in two ways."""
    found: list[Member] = []
    position = 0
    for _ in range(count):
        if position + ENTRY.size > len(data) or data[position : position + 4] != _ENTRY_MAGIC:
            fail(file, say("problem.zip-no-entry", number=len(found) + 1, count=count))
        member, position = _entry(data, position, place=place, file=file)
        found.append(member)
    if position != len(data):
        fail(file, say("problem.zip-directory-more", n=len(data) - position, count=count))
    if not found:
        fail(file, say("problem.zip-empty"))
    by_place = sorted(found, key=lambda member: member.offset)
    if by_place[0].offset:
        fail(file, say("problem.zip-before", n=by_place[0].offset))
    if any(one.offset == other.offset for one, other in pairwise(by_place)):
        fail(file, say("problem.zip-same-byte"))
    ends = {one.name: other.offset for one, other in pairwise(by_place)}
    root = found[0].name.partition("/")[0]
    members: dict[str, Member] = {}
    seen: set[str] = set()
    for member in found:
        folder, _, below = member.name.partition("/")
        if folder != root:
            fail(file, say("problem.zip-folders", root=quoted(root), other=quoted(folder)))
        # torch looks names up without regard to case.
        if (folded := below.casefold()) in seen:
            fail(file, say("problem.zip-two-members", name=quoted(member.name)))
        seen.add(folded)
        members[below] = replace(member, stop=ends.get(member.name, place.start))
    return Archive(file=file, root=root, members=members)


def _entry(data: bytes, position: int, *, place: ByteRange, file: str) -> tuple[Member, int]:
    (
        _,
        made_by,
        _,
        flags,
        method,
        _,
        _,
        crc,
        packed,
        size,
        n_name,
        n_extra,
        n_comment,
        disk,
        _,
        mode,
        offset,
    ) = ENTRY.unpack_from(data, position)
    names = position + ENTRY.size
    extras, stop = names + n_name, names + n_name + n_extra + n_comment
    if stop > len(data):
        fail(file, say("problem.zip-entry-beyond"))
    raw_name = data[names:extras]
    name = _name(raw_name, file)
    where = say("part.member", name=quoted(name))
    size, packed, offset, disk = _widened(
        data[extras : extras + n_extra], (size, packed, offset, disk), file=file, where=where
    )
    if flags & _ENCRYPTED:
        raise UnsupportedFormat(plain(file), say("problem.zip-encrypted", where=where))
    if flags & ~_KNOWN_FLAGS or disk or (method == 0 and packed != size):
        fail(file, say("problem.zip-entry", where=where))
    # The upper half is a Unix mode where a Unix program made the file.
    if made_by >> 8 == 3 and stat.S_ISLNK(mode >> 16):
        fail(file, say("problem.zip-link", where=where))
    if offset + LOCAL.size + n_name + packed > place.start:
        fail(file, say("problem.zip-claims", where=where, n=packed, position=offset, start=place.start))
    member = Member(
        name=name,
        raw_name=raw_name,
        offset=offset,
        stop=place.start,
        size=size,
        method=method,
        flags=flags,
        crc=crc,
    )
    return member, stop


def _name(raw: bytes, file: str) -> str:
    try:
        name = raw.decode("utf-8")
    except UnicodeDecodeError:
        fail(file, say("problem.zip-name-utf8", name=repr(raw[:40])))
    problem = name_problem(name)
    parts = name.split("/")
    if problem is None and (len(parts) < 2 or "\\" in name or any(part in ("", ".", "..") for part in parts)):
        problem = say("problem.torch-not-plain")
    if problem is not None:
        fail(file, say("problem.zip-member-name", name=quoted(name), problem=problem))
    return name


def _widened(
    extra: bytes, values: tuple[int, int, int, int], *, file: str, where: Message
) -> tuple[int, int, int, int]:
    """Replace the values that are stored in the large form, in the format's order."""
    limits = (_FULL32, _FULL32, _FULL32, _FULL16)
    blocks = [block for kind, block in _extras(extra, file, where) if kind == _ZIP64_EXTRA]
    if len(blocks) > 1:
        fail(file, say("problem.zip-size-twice", where=where))
    rest = blocks[0] if blocks else b""
    wide: list[int] = []
    for value, limit in zip(values, limits, strict=True):
        if value != limit:
            wide.append(value)
            continue
        width = 8 if limit == _FULL32 else 4
        if len(rest) < width:
            fail(file, say("problem.zip-size-missing", where=where))
        wide.append(int.from_bytes(rest[:width], "little"))
        rest = rest[width:]
    return wide[0], wide[1], wide[2], wide[3]


def _extras(extra: bytes, file: str, where: Message) -> list[tuple[int, bytes]]:
    blocks: list[tuple[int, bytes]] = []
    position = 0
    while position < len(extra):
        if position + 4 > len(extra):
            fail(file, say("problem.zip-extra", where=where))
        kind, length = struct.unpack_from("<HH", extra, position)
        position += 4
        if position + length > len(extra):
            fail(file, say("problem.zip-extra", where=where))
        blocks.append((kind, extra[position : position + length]))
        position += length
    return blocks


def fail(file: str, problem: Message) -> NoReturn:
    """Refuse a file."""
    raise HeaderError(plain(file), problem)
