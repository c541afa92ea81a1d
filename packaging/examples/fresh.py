#!/usr/bin/env python3
"""Tell when a mirror gets too old to act on, and when it is fresh again.

The mirror needs the option meta: achbridge mirror krang/imu --meta

    achbridge channel cat krang.imu.meta --last --follow | python3 fresh.py 50

Each frame has 64 bytes, little-endian, laid out as in achbridge's bridge/status/meta.go.
The age also grows while nothing arrives: captured is a time of this host's
CLOCK_MONOTONIC, which is time.monotonic_ns() here.

Each line also tells how many frames of the origin the bridge has left out since the
first. A reader of the mirror cannot see that: the mirror has numbers of its own, without a
hole. It is the growth of seq less the growth of mirror_seq.
"""
import os
import select
import struct
import sys
import time
from typing import NamedTuple, Optional

LAYOUT = struct.Struct("<4s4B7Q")
LINKS = ("down", "up", "silent", "refused")


class Meta(NamedTuple):
    link: str
    stale: bool  # no frame came for the mirror's deadline
    safe: bool  # the newest frame is the safe frame of on_stale
    epoch: int
    seq: int  # of the frame, as its origin counts; 0: no frame yet
    mirror_seq: int
    captured_ns: int  # 0: not known
    put_ns: int
    uncertainty_ns: int
    deadline_ns: int  # 0: none

    def age_ms(self) -> Optional[float]:
        """How old the mirror's newest frame may be now; None: nobody knows."""
        if self.captured_ns == 0:
            return None
        return (time.monotonic_ns() - self.captured_ns + self.uncertainty_ns) / 1e6


def left_out(before: Meta, after: Meta) -> int:
    """Frames of the origin that came between two and are not in the mirror. Below 0: the
    safe frame, or somebody else's, is in the mirror alone."""
    anew = before.epoch != after.epoch or after.seq < before.seq or after.mirror_seq < before.mirror_seq
    if anew or before.seq == 0:
        return 0  # of another life of the channel, or file of the mirror, nothing is known
    return (after.seq - before.seq) - (after.mirror_seq - before.mirror_seq)


def parse(frame: bytes) -> Meta:
    magic, version, link, flags, _, *words = LAYOUT.unpack(frame)
    if magic != b"AMTA" or version != 1:
        raise ValueError("not a frame of a metadata channel")
    return Meta(LINKS[link], bool(flags & 1), bool(flags & 2), *words)


def watch(stream: int, limit_ms: float) -> None:
    """Print a line whenever the mirror turns fresh or old, until the stream ends."""
    data, meta, was, left = b"", None, None, 0
    while True:
        ready, _, _ = select.select([stream], [], [], limit_ms / 1000 / 4)
        if ready:
            more = os.read(stream, 65536)
            if not more:
                return
            data += more
            while len(data) >= LAYOUT.size:
                last, meta, data = meta, parse(data[: LAYOUT.size]), data[LAYOUT.size :]
                left += left_out(last, meta) if last else 0
        if meta is None:
            continue
        age = meta.age_ms()
        now = "fresh" if age is not None and age <= limit_ms and not meta.stale else "old"
        if now != was:
            text = "of unknown age" if age is None else f"{age:.3f} ms old at most"
            print(f"{now}: frame {meta.seq}, {text}, link {meta.link}, {max(0, left)} left out", flush=True)
            was = now


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: achbridge channel cat MIRROR.meta --last --follow | fresh.py LIMIT_MS")
    watch(sys.stdin.fileno(), float(sys.argv[1]))
