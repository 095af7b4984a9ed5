"""Contrast, in code: browsers' checkers cannot judge text and marks inside SVG."""

from __future__ import annotations

import re

import pytest

from release import shipped

STYLE = (shipped.folder() / "templates/style.css").read_text()
LIGHT, DARK, PRINT = (
    dict(re.findall(r"--(\w+): (#[0-9a-f]+)", block))
    for block in re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
)


def luminance(colour: str) -> float:
    """Relative luminance, as WCAG 2.2 defines it."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    channels = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, two: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(two)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK, PRINT], ids=["light", "dark", "print"])
@pytest.mark.parametrize("text", ["ink", "muted", "accent", "stop"])
def test_text_stands_out_from_the_paper(theme: dict[str, str], text: str) -> None:
    assert contrast(theme[text], theme["paper"]) >= 4.5
    assert contrast(theme[text], theme["raised"]) >= 4.5


@pytest.mark.parametrize("theme", [LIGHT, DARK, PRINT], ids=["light", "dark", "print"])
def test_marks_stand_out_from_what_they_stand_on(theme: dict[str, str]) -> None:
    assert contrast(theme["edge"], theme["paper"]) >= 3
    assert contrast(theme["accent"], theme["band"]) >= 3
    assert contrast(theme["ink"], theme["band"]) >= 4.5


def test_contrast_knows_black_from_white() -> None:
    assert contrast("#000", "#ffffff") == pytest.approx(21)
