"""The peer's own environment, so that nothing of it is installed beside us."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
HOME = ROOT / ".dev" / "peers"
WANTED = ("pgqueuer==1.6.0", "asyncpg==0.32.0", "uvloop==0.23.0")


def python() -> Path:
    """The interpreter of an environment that has the peer; made when it is first needed."""
    stamp = HOME / "stamp"
    if not stamp.is_file() or stamp.read_text() != " ".join(WANTED):
        print("Installing pgqueuer into .dev/peers (once) …", file=sys.stderr)
        shutil.rmtree(HOME, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", HOME], check=True)
        install = [HOME / "bin" / "python", "-m", "pip", "install", "-q", *WANTED]
        subprocess.run(install, check=True, stderr=subprocess.DEVNULL)
        stamp.write_text(" ".join(WANTED))
    return HOME / "bin" / "python"
