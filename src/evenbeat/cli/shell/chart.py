"""Bar charts in the terminal, one line for each bar, drawn to an eighth of a character."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

EIGHTHS = " ▏▎▍▌▋▊▉"
FULL = "█"
WIDEST = 60
# Columns for labels, numbers and remarks beside the bars.
MARGIN = 40
NARROWEST = 10


@dataclass(frozen=True, slots=True)
class Bar:
    """One line: a label, a bar for the value, and a remark."""

    label: str
    value: float
    remark: str = ""
    is_marked: bool = False


def draw(bars: Sequence[Bar]) -> None:
    """Print the bars, as wide as the terminal allows; marked bars are red."""
    console = Console(highlight=False)
    width = min(WIDEST, max(NARROWEST, console.width - MARGIN))
    longest = max((len(bar.label) for bar in bars), default=0)
    for bar, drawn in zip(bars, scale_bars([bar.value for bar in bars], width), strict=True):
        line = Text(f"{bar.label:<{longest}}  ")
        line.append(f"{drawn:<{width}}", style="bold red" if bar.is_marked else "cyan")
        line.append(f"  {bar.remark}")
        console.print(line, soft_wrap=True)


def scale_bars(values: Sequence[float], width: int) -> list[str]:
    """The largest value fills the width; every value above 0 is visible."""
    largest = max(values, default=0)
    if largest <= 0:
        return [""] * len(values)
    eighths = [max(round(value / largest * width * 8), value > 0) for value in values]
    return [(FULL * (count // 8) + EIGHTHS[count % 8]).rstrip() for count in eighths]
