"""Frames: what is whole is found, what is not is named."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossleuth.record import frames
from lossleuth.record.frames import Kind

some_frames = st.lists(st.tuples(st.sampled_from(Kind), st.binary(max_size=60)), max_size=6)


def joined(parts: list[tuple[Kind, bytes]]) -> bytes:
    return b"".join(frames.encode(kind, payload) for kind, payload in parts)


def payloads(data: bytes, scan: frames.Scan) -> list[tuple[Kind, bytes]]:
    return [(f.kind, data[f.payload : f.payload + f.length]) for f in scan.frames]


@given(some_frames)
def test_what_was_encoded_is_found_again(parts: list[tuple[Kind, bytes]]) -> None:
    data = joined(parts)
    scan = frames.scan(data)
    assert payloads(data, scan) == parts
    assert (scan.end, scan.reason, scan.missing) == (len(data), None, 0)


@given(some_frames, st.data())
def test_a_cut_leaves_the_whole_frames_and_says_what_is_missing(
    parts: list[tuple[Kind, bytes]], draw: st.DataObject
) -> None:
    data = joined(parts)
    cut = draw.draw(st.integers(0, len(data)))
    scan = frames.scan(data[:cut])
    assert payloads(data, scan) == parts[: len(scan.frames)]
    assert scan.end == len(joined(parts[: len(scan.frames)])) <= cut
    assert (scan.reason is None) == (scan.end == cut) == (scan.missing == 0)
    # Never more is asked for than the frame in question lacks.
    if scan.missing:
        end = len(joined(parts[: len(scan.frames) + 1]))
        assert cut + scan.missing <= end


@given(some_frames.filter(bool), st.data())
def test_a_flipped_bit_is_never_accepted(
    parts: list[tuple[Kind, bytes]], draw: st.DataObject
) -> None:
    data = bytearray(joined(parts))
    bit = draw.draw(st.integers(0, 8 * len(data) - 1))
    data[bit // 8] ^= 1 << bit % 8
    scan = frames.scan(bytes(data))
    before = len(scan.frames)
    assert payloads(bytes(data), scan) == parts[:before]
    assert scan.end <= bit // 8 < len(joined(parts[: before + 1]))
    # Damage must not look like a frame that is still being written.
    assert scan.reason is not None
    assert scan.missing == 0


@given(st.binary(max_size=200))
def test_any_bytes_can_be_scanned(data: bytes) -> None:
    scan = frames.scan(data)
    assert 0 <= scan.end <= len(data)
    assert (scan.reason is None) == (scan.end == len(data))


def test_zeros_as_a_crashed_file_system_leaves_them_are_damage() -> None:
    assert frames.scan(bytes(4096)).reason == "the head of a frame is damaged"


def test_parts_are_one_payload() -> None:
    assert frames.encode(Kind.STEP, b"ab", b"", b"c") == frames.encode(Kind.STEP, b"abc")


def head(length: int, kind: int) -> bytes:
    five = struct.pack("<IB", length, kind)
    return five + struct.pack("<I", frames.crc32(five))


@pytest.mark.parametrize(
    ("length", "kind", "reason"),
    [
        (0, 99, "a frame is of the unknown kind 99"),
        (2**32 - 1, 3, "a frame claims 4294967295 bytes, over the limit of 67108864"),
    ],
)
def test_a_head_that_claims_too_much_is_refused(length: int, kind: int, reason: str) -> None:
    scan = frames.scan(head(length, kind) + bytes(20))
    assert (scan.reason, scan.missing) == (reason, 0)


def test_a_payload_over_the_limit_is_not_encoded() -> None:
    with pytest.raises(ValueError, match="over the limit of 67108864"):
        frames.encode(Kind.STEP, bytes(frames.MAX_PAYLOAD_BYTES), b"x")


@pytest.mark.parametrize(
    ("opening", "version"),
    [
        (frames.OPENING, 1),
        (frames.MAGIC + b"\x02\x01", 258),
        (frames.OPENING[:-1], None),
        (b"", None),
        (frames.OPENING.replace(b"\r\n", b"\n"), None),
    ],
)
def test_the_opening_names_the_version(opening: bytes, version: int | None) -> None:
    assert frames.version_of(opening + bytes(8 if version else 0)) == version
