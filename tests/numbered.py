"""Pictures that show a number which survives a codec, a JPEG and another size."""

from __future__ import annotations

from typing import Any

import numpy


def drawn_number(number: int) -> Any:
    """160 × 96 px of 15 blocks: white top left and black other corners, 8 bits and a checksum.

    Readable after any codec here, a JPEG and a smaller size, and wrong when turned or mirrored.
    """
    bits = [number >> bit & 1 for bit in range(8)] + [number % 7 >> bit & 1 for bit in range(3)]
    lit = [1, *bits[:3], 0, *bits[3:8], 0, *bits[8:], 0]
    blocks = numpy.array(lit, numpy.uint8).reshape(3, 5) * 190 + 30
    return numpy.repeat(numpy.kron(blocks, numpy.ones((32, 32), numpy.uint8))[..., None], 3, axis=2)


def read_drawn(picture: Any) -> int:
    """The number of a `drawn_number`; fails on anything else."""
    high, wide = picture.shape[0] / 3, picture.shape[1] / 5
    means = [
        picture[int((y + 0.3) * high) : int((y + 0.7) * high) + 1,
                int((x + 0.3) * wide) : int((x + 0.7) * wide) + 1].mean()
        for y in range(3) for x in range(5)
    ]  # fmt: skip
    assert all(abs(mean - 125) > 45 for mean in means), "a picture of one number, not of two"
    lit = [int(mean > 125) for mean in means]
    assert (lit[0], lit[4], lit[10], lit[14]) == (1, 0, 0, 0), "upright and not mirrored"
    bits = [*lit[1:4], *lit[5:10], *lit[11:14]]
    number, check = (sum(bit << i for i, bit in enumerate(part)) for part in (bits[:8], bits[8:]))
    assert check == number % 7
    return number
