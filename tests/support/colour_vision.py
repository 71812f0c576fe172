"""How colours look to eyes that lack one kind of cone, and how far apart two colours are."""

from __future__ import annotations

from textual.color import Color

# Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency" (2009),
# matrices of severity 1.0, for linear RGB.
MATRICES = {
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}

Linear = tuple[float, float, float]


def seen(color: Color, kind: str) -> Linear:
    """Linear RGB as eyes of this ``kind`` get it."""
    red, green, blue = linear(color)
    mixed = [sum(weight * part for weight, part in zip(row, (red, green, blue), strict=True)) for row in MATRICES[kind]]
    return tuple(min(1.0, max(0.0, part)) for part in mixed)  # type: ignore[return-value]


def linear(color: Color) -> Linear:
    parts = [value / 255 for value in color.rgb]
    return tuple(part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)  # type: ignore[return-value]


def distance(one: Linear, other: Linear) -> float:
    """ΔE of CIE 1976: 2 can just be told apart, 10 at a glance."""
    return sum((a - b) ** 2 for a, b in zip(_lab(one), _lab(other), strict=True)) ** 0.5


def _lab(color: Linear) -> tuple[float, float, float]:
    """CIE L*a*b*, under D65."""
    red, green, blue = color
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.95047
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.08883
    x, y, z = (part ** (1 / 3) if part > 0.008856 else 7.787 * part + 16 / 116 for part in (x, y, z))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)
