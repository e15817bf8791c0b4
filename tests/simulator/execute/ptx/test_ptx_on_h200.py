"""Single PTX instructions give the values that an H200 gave (torch 2.11, Triton 3.6, CUDA 13.0, December 2026).

`h200_values.npz` has 256 triples of words, a good part of them zeros, infinities, NaNs and denormals, and for each
instruction its text (``$0`` is the result, ``$1`` to ``$3`` the words) and what the GPU made of them.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from warps import lanewise

RECORDED = np.load(Path(__file__).with_name("h200_values.npz"))
TEXTS = dict(str(line).split("\t") for line in RECORDED["texts"])
WORDS = [RECORDED[name] for name in "abc"]
# What the hardware looks up in tables: largest error, relative or, for a denormal, to the smallest normal number.
APPROXIMATE = {
    **dict.fromkeys(("ex2", "ex2f", "divfull", "divapprox"), 2.0**-21.5),
    **dict.fromkeys(("rcp", "rsqrt", "sqrt"), 2.0**-22.5),
    "tanh": 2.0**-10.9,
}
LOGARITHMS, TURNS = ("lg2", "lg2f"), ("sin", "cos")


def executed(name: str) -> np.ndarray:
    """The instruction on all triples."""
    text = TEXTS[name].replace("{", "{{").replace("}", "}}")
    return lanewise(re.sub(r"\$(\d)", r"{\1}", text), *WORDS, result=np.uint32)


@pytest.mark.parametrize("name", [name for name in TEXTS if name not in (*APPROXIMATE, *LOGARITHMS, *TURNS)])
def test_an_instruction_gives_the_bits_of_the_gpu(name: str) -> None:
    have, want = executed(name), RECORDED[f"op_{name}"]
    wrong = np.flatnonzero(have != want)
    assert not len(wrong), [tuple(hex(int(word[at])) for word in (*WORDS, want, have)) for at in wrong[:3]]


@pytest.mark.parametrize("name", [*APPROXIMATE, *LOGARITHMS, *TURNS])
def test_an_approximate_one_comes_as_near_as_its_tables_allow(name: str) -> None:
    have, want = (word.view(np.float32).astype(np.float64) for word in (executed(name), RECORDED[f"op_{name}"]))
    special = ~np.isfinite(want) | (want == 0)
    if name in TURNS:
        # Angles of many turns keep few bits, and the GPU's smallest step of a turn is an absolute one.
        near = np.abs(WORDS[0].view(np.float32)) < 2 * np.pi
        assert np.abs(have - want)[near].max() < 2.0**-20.5
        assert np.array_equal(np.isfinite(have), np.isfinite(want))
        return
    assert np.array_equal(have[special], want[special], equal_nan=True)
    error, size = np.abs(have - want)[~special], np.abs(want[~special])
    bound = 2.0**-22 * np.maximum(1.0, size) if name in LOGARITHMS else APPROXIMATE[name] * np.maximum(2.0**-126, size)
    assert (error <= bound).all(), (error / bound).max()
