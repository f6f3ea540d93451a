"""Each block of Python of the pages runs as it stands there, on real servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

import pytest

import quorumlock as ql
from servers import REPOSITORY, Server

PAGES = [REPOSITORY / "docs" / "PYTHON.md", REPOSITORY / "crates" / "python" / "README.md"]
FENCE = "```"


def blocks() -> Iterator[Tuple[Path, int, str]]:
    for page in PAGES:
        lines: List[str] = []
        inside = False
        for number, line in enumerate(page.read_text().splitlines(), 1):
            if inside and line == FENCE:
                yield page, number - len(lines), "\n".join(lines)
                inside = False
            elif inside:
                lines.append(line)
            elif line == f"{FENCE}python":
                lines, inside = [], True


FOUND = [pytest.param(*found, id=f"{found[0].stem}-{found[1]}") for found in blocks()]


@pytest.mark.parametrize("page, line, block", FOUND)
def test_a_block_runs(
    page: Path,
    line: int,
    block: str,
    server: Server,
    three: List[Server],
    quorumlock_locker: ql.Locker,
) -> None:
    # Servers of a quorum bar programs that take them for single ones.
    block = block.replace('single("redis://r1"', f'single("{server.url}"')
    for number, member in enumerate(three, 1):
        block = block.replace(f"redis://r{number}", member.url)
    assert "redis://r" not in block
    names: Dict[str, Any] = {}
    exec(compile("\n" * (line - 1) + block, str(page), "exec"), names)
    for name, test in list(names.items()):
        if name.startswith("test_"):
            takes = test.__code__.co_varnames[: test.__code__.co_argcount]
            test(*[{"quorumlock_locker": quorumlock_locker}[one] for one in takes])


def test_the_pages_have_blocks() -> None:
    assert len(list(blocks())) >= 8


def test_the_version_is_that_of_the_library() -> None:
    manifest = (REPOSITORY / "Cargo.toml").read_text()
    assert f'[workspace.package]\nversion = "{ql.__version__}"' in manifest
