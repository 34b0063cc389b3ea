"""Bar charts in the terminal: one line a bar, to an eighth of a character."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

EIGHTHS = " ▏▎▍▌▋▊▉"
FULL = "█"
WIDEST = 60
# What labels, numbers and remarks need beside the bars.
MARGIN = 40
NARROWEST = 10


@dataclass(frozen=True, slots=True)
class Bar:
    """One line: what it is, how long its bar is, and what there is to say about it."""

    label: str
    value: float
    remark: str = ""
    is_marked: bool = False


def draw(bars: Sequence[Bar]) -> None:
    """On standard output, as wide as the terminal allows; what is marked stands out."""
    console = Console(highlight=False)
    width = min(WIDEST, max(NARROWEST, console.width - MARGIN))
    longest = max((len(bar.label) for bar in bars), default=0)
    for bar, drawn in zip(bars, scaled([bar.value for bar in bars], width), strict=True):
        line = Text(f"{bar.label:<{longest}}  ")
        line.append(f"{drawn:<{width}}", style="bold red" if bar.is_marked else "cyan")
        line.append(f"  {bar.remark}")
        console.print(line, soft_wrap=True)


def scaled(values: Sequence[float], width: int) -> list[str]:
    """The largest fills the width; anything above nought can be seen."""
    largest = max(values, default=0)
    if largest <= 0:
        return [""] * len(values)
    eighths = [max(round(value / largest * width * 8), value > 0) for value in values]
    return [(FULL * (count // 8) + EIGHTHS[count % 8]).rstrip() for count in eighths]
