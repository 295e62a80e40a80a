"""Damage inside a container whose own lengths and checksums are right, so that it arrives."""

import gzip
import io
import zipfile
import zlib

from .mutations import of_bytes, of_head, of_json


def of_member(name: str, content: bytes, number: int) -> bytes:
    """An archive whose checksums are right, with one array file broken."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {entry: archive.read(entry) for entry in archive.namelist()}
    members[name] = of_head(members[name], number)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, body in members.items():
            archive.writestr(entry, body)
    return packed.getvalue()


def of_packed(content: bytes, number: int, length: int = 20) -> bytes:
    """Gzipped after the damage, so that the damage arrives."""
    return gzip.compress(of_head(gzip.decompress(content), number, length=length), mtime=0)


def of_png(content: bytes, number: int) -> bytes:
    """A PNG whose chunks are broken and whose checksums fit nevertheless."""
    broken, at = bytearray(of_bytes(content, number)), 8
    while at + 12 <= len(broken):
        length = int.from_bytes(broken[at : at + 4], "big")
        end = at + 8 + length
        if end + 4 > len(broken):
            break
        broken[end : end + 4] = zlib.crc32(broken[at + 4 : end]).to_bytes(4, "big")
        at = end + 4
    return bytes(broken)


def of_safetensors(content: bytes, number: int) -> bytes:
    """A file whose header has its length stated truly, with a header that is wrong."""
    length = int.from_bytes(content[:8], "little")
    header = of_json(content[8 : 8 + length], number)
    return len(header).to_bytes(8, "little") + header + content[8 + length :]


def of_either(content: bytes, number: int) -> bytes:
    return (of_safetensors if number % 2 else of_head)(content, number)


def of_lines(content: bytes, number: int) -> bytes:
    """A file of JSON lines with one of them wrong."""
    lines = content.splitlines()
    if number % 3:
        lines[number % len(lines)] = of_json(lines[number % len(lines)], number)
        return b"\n".join(lines)
    return of_bytes(content, number)
