"""How long it takes to start: a warm `./dev`, `up` on a new home, `up` on one that exists.

The yardstick of the same run is a Python that starts and does nothing.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 5
PORT = 18060


def main() -> None:
    figures = {
        "python that does nothing": measure([sys.executable, "-c", ""]),
        "./dev help, warm": measure([ROOT / "dev", "help"]),
        "./dev evenbeat --version, warm": measure([ROOT / "dev", "evenbeat", "--version"]),
    }
    with tempfile.TemporaryDirectory(prefix="evenbeat-bench-") as home:
        Path(home).chmod(0o755)
        figures["up until /readyz, new home"] = [until_ready(home)]
        figures["up until /readyz, again"] = [until_ready(home) for _ in range(ROUNDS)]
    base = statistics.median(figures["python that does nothing"])
    rows = [(name, statistics.median(times)) for name, times in figures.items()]
    for name, seconds in rows:
        print(f"{name:34} {seconds:6.2f} s  {seconds / base:6.1f} ×")
    print(json.dumps({name: round(seconds, 3) for name, seconds in rows}))


def measure(command: list[object]) -> list[float]:
    return [timed(command) for _ in range(ROUNDS)]


def timed(command: list[object]) -> float:
    began = time.perf_counter()
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def until_ready(home: str) -> float:
    environ = os.environ | {"EVENBEAT_DATA_DIR": f"{home}/data", "EVENBEAT_PORT": str(PORT)}
    began = time.perf_counter()
    with (Path(home) / "up.log").open("w") as log:
        up = subprocess.Popen([ROOT / "dev", "up"], env=environ, stdout=log, stderr=log)
    try:
        while not is_ready():
            if up.poll() is not None:
                sys.exit(f"up ended: {(Path(home) / 'up.log').read_text()}")
            time.sleep(0.01)
        return time.perf_counter() - began
    finally:
        up.terminate()
        up.wait()


def is_ready() -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/readyz", timeout=1) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


if __name__ == "__main__":
    main()
