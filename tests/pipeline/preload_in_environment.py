"""Prints the effects of preloading an environment's packages, as JSON; run with its Python."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path

from scripts.supervise import fork_server


def main() -> None:
    packages = (*fork_server.PACKAGES, *fork_server.ON_DEMAND)
    problems = fork_server.preload(packages)
    loaded = [name for name in packages if name in sys.modules]
    sources = [Path(sys.modules[name].__file__) for name in loaded]
    without = [str(s) for s in sources if not Path(importlib.util.cache_from_source(s)).is_file()]
    threads = len(os.listdir("/proc/self/task"))
    found = {"problems": problems, "loaded": loaded, "threads": threads, "no_bytecode": without}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
