"""Measures `vmfbench site` on a synthetic history: seconds, CPU time and memory of the build, sizes, and how long headless Chromium takes to draw.

The packages are those of requirements-dev.txt.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from benchmarks import synthetic

FIRST = ("index.html", "assets/site.js", "assets/site.css")
"""What the first page loads."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.site", description=__doc__)
    parser.add_argument("--runs", type=int, default=50, metavar="N")
    parser.add_argument("--cells", type=int, default=5000, metavar="N", help="of each run")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes of the build")
    kept = "where the history is made, or was by the same command; default: a temporary one"
    parser.add_argument("--folder", type=Path, help=kept)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        if not (folder / "results").exists():
            synthetic.make_history(folder / "results", args.runs, args.cells)
        out = folder / "site"
        words = ["site", str(out), "--from", str(folder / "results/history"), "--jobs", str(args.jobs)]  # fmt: skip
        began = time.monotonic()
        subprocess.run([sys.executable, "-m", "scripts.command", *words], check=True)
        seconds = time.monotonic() - began
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu, peak = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
        files = [path for path in out.rglob("*") if path.is_file()]
        print(
            f"built in {seconds:.1f} s with {args.jobs} processes, {cpu:.1f} s of CPU time; the largest process has {peak:.0f} MiB"
        )
        print(f"{len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:.1f} MB")
        print(f"first page: {sum((out / name).stat().st_size for name in FIRST) / 1e3:.0f} kB, drawn in {drawn(out / 'index.html'):.2f} s")  # fmt: skip
        print(f"two runs compared in {drawn(out / 'compare.html'):.2f} s")
        models = sorted((out / "models").iterdir(), key=lambda path: path.stat().st_size)
        print(f"largest page of a model: {models[-1].stat().st_size / 1e3:.0f} kB, its history drawn in {drawn(models[-1], '#history'):.2f} s")  # fmt: skip


def drawn(page: Path, address: str = "") -> float:
    """Return the seconds until a page is drawn, as the page itself states them: the median of three."""
    times = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        for _ in range(3):
            opened = browser.new_page(viewport={"width": 1280, "height": 900})
            opened.goto(page.resolve().as_uri() + address)
            opened.wait_for_selector("html[data-drawn]", state="attached")
            times.append(float(opened.get_attribute("html", "data-drawn") or "nan") / 1e3)
        browser.close()
    return sorted(times)[1]


if __name__ == "__main__":
    main()
