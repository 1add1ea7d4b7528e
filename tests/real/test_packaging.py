"""The wheel, installed into an empty environment, works from another folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

import dbcheck
from tests.runs import make

ROOT = Path(dbcheck.__file__).resolve().parent.parent
STORED_RUN = Path(make.__file__).parent / "mysql-pass"
KEPT = (
    *("dbcheck", "sql", "workloads", "matrices", "inventory"),
    *("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "docs"),
)


def run(*words: str | Path, cwd: Path) -> str:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_holds_all_it_needs(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in KEPT:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=ignore)
        else:
            shutil.copy(ROOT / name, source / name)
    run(sys.executable, "-m", "build", "--wheel", "-o", tmp_path, source, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    shutil.rmtree(source)

    place = tmp_path / "empty"
    venv.create(place, with_pip=True)
    run(place / "bin" / "pip", "install", "--quiet", wheel, cwd=tmp_path)
    assert (place / "share" / "man" / "man1" / "dbcheck-lab-run.1").is_file()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    listed = run(place / "bin" / "dbcheck", "demo", "--list", cwd=elsewhere)
    assert "workloads: batch, classic, insert, mixed, order-entry, readers," in listed
    found = run(
        place / "bin" / "python",
        "-c",
        "from dbcheck import files; import dbcheck; print(dbcheck.__file__);"
        "print(files.sql('mysql', 'insert_fs'), files.sql('postgresql', 'facts'));"
        "print(files.matrix_names(), files.switch_inventory('shelly'));"
        "print(sorted(e.name for e in files.folder('inventory').iterdir()))",
        cwd=elsewhere,
    )
    assert str(place) in found
    assert "INSERT INTO fs VALUES(0)" in found
    assert "percona-2009" in found
    assert "example.yml" in found
    assert "/Switch.Set?id=0&on=false" in found
    shutil.copytree(STORED_RUN, elsewhere / "run")
    page = run(
        place / "bin" / "dbcheck", "report", "run", "--format", "html", cwd=elsewhere
    )
    assert "uPlot" in page
