"""Take the pictures of docs/report.md: each view of a results/report.html, in headless Chromium.

    python docs/report/take_pictures.py results/report.html --cell vit/torchmlir-torch/llvm-cpu

Pictures of views for which the page has no rows are left as they are. The packages are those of requirements-dev.txt.
"""

from __future__ import annotations

import argparse
import shutil
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from PIL import Image
from playwright.sync_api import Page, sync_playwright

HERE = Path(__file__).parent
WIDTH = 1180
"""Of the pictures, in pixels."""


@dataclass(frozen=True)
class Picture:
    """`address`: what follows `#` in the page's address; `height` in pixels; `click`: a control that is used first."""

    name: str
    address: str
    height: int
    click: str = ""


def pictures(cell: str) -> list[Picture]:
    """Return all pictures; those of details are of a cell."""
    return [
        Picture("overview", "overview", 700),
        Picture("speedups", "overview", 700, "input[name=colour][value=eager]"),
        Picture("details", f"overview?cell={quote(cell, safe='')}", 1020),
        Picture("latency", "latency", 1150),
        Picture("threads", "threads", 1000),
        Picture("training", "training", 1000),
        Picture("failures", "failures", 900),
        Picture("why", "why", 1000),
        Picture("memory", "memory", 1750),
        Picture("operators", "operators", 800),
        Picture("kernels", "kernels", 800),
        Picture("comparison", "comparison", 800),
        Picture("history", "history", 1000),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("page", type=Path)
    parser.add_argument("--cell", required=True, help="whose details are shown")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="of pictures (default: all)")
    args = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        page = browser.new_page(color_scheme="light")
        for one in pictures(args.cell):
            if args.only is None or one.name in args.only:
                take(page, args.page, one)
        browser.close()


def take(page: Page, file: Path, picture: Picture) -> None:
    """Write <name>.png next to this file, with a palette, so that it stays small."""
    page.set_viewport_size({"width": WIDTH, "height": picture.height})
    page.goto("about:blank")
    page.goto(f"{file.resolve().as_uri()}#{picture.address}")
    page.wait_for_selector("html[data-drawn]", state="attached")
    if picture.click:
        page.check(picture.click)
    page.wait_for_timeout(1500)  # charts are drawn when they come into view
    if not page.locator("main table, main figure, main details").count():
        print(f"{picture.name}: the page has nothing to show there")
        return
    path = HERE / f"{picture.name}.png"
    page.screenshot(path=path)
    Image.open(path).convert("P", palette=Image.Palette.ADAPTIVE).save(path, optimize=True)
    print(f"{picture.name}: {path.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
