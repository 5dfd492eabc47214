"""Prints the effects of preloading an environment's packages, as JSON; run with its Python."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path

from scripts.supervise import fork_server


def main() -> None:
    problems = fork_server.preload()
    loaded = [name for name in fork_server.PACKAGES if name in sys.modules]
    sources = [Path(sys.modules[name].__file__) for name in loaded]
    without = [str(s) for s in sources if not Path(importlib.util.cache_from_source(s)).is_file()]
    threads = len(os.listdir("/proc/self/task"))
    found = {"problems": problems, "loaded": loaded, "threads": threads, "no_bytecode": without}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
