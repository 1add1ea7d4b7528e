"""What users install, by the wheel or by README's commands, works elsewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

import dbcheck
from tests.runs import make
from tools.docs import manpages

ROOT = Path(dbcheck.__file__).resolve().parent.parent
STORED_RUN = Path(make.__file__).parent / "mysql-pass"
KEPT = (
    *("dbcheck", "sql", "workloads", "matrices", "inventory"),
    *("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "docs", "constraints"),
)


def run(*words: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        words, cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a checkout without anything that was built or installed in it."""
    made = tmp_path / "source"
    made.mkdir()
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in KEPT:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, made / name, ignore=ignore)
        else:
            shutil.copy(ROOT / name, made / name)
    return made


def test_the_install_commands_of_readme_work(source: Path, tmp_path: Path) -> None:
    """Run them as they stand there, with the system's own Python and an empty home."""
    blocks = re.findall(r"(?:^    .*\n)+", (source / "README.md").read_text(), re.M)
    (block,) = (block for block in blocks if "pip install" in block)
    system = Path(sys.base_prefix) / "bin"
    kept = {name: value for name, value in os.environ.items() if "PYTHON" not in name}
    path = os.pathsep.join(map(str, (system, "/usr/bin", "/bin")))
    # As on Debian, where pip refuses to install outside of a virtual environment.
    env = kept | {"HOME": str(tmp_path), "PATH": path, "PIP_REQUIRE_VIRTUALENV": "1"}
    env.setdefault("XDG_CONFIG_HOME", str(Path.home() / ".config"))  # pip's mirrors
    shown = ("cd /", "dbcheck --version", "pip check >&2")
    where = "python -c 'import dbcheck; print(dbcheck.__file__)'"
    commands = "\n".join((block, *shown, where))
    said = run("sh", "-e", "-c", commands, cwd=source, env=env)
    *_, version, place = said.splitlines()
    assert version.endswith(dbcheck.__version__)
    assert Path(place).is_relative_to(tmp_path / "dbcheck-venv")


@pytest.mark.wide
def test_the_wheel_holds_all_it_needs(source: Path, tmp_path: Path) -> None:
    """It is built from the source that is released beside it, as by make dist."""
    manpages.write(source / manpages.FOLDER.relative_to(ROOT))
    run(sys.executable, "-m", "build", "-o", tmp_path, source, cwd=tmp_path)
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
        "from dbcheck.config import files; import dbcheck; print(dbcheck.__file__);"
        "print(files.read_sql('mysql', 'insert_fs'));"
        "print(files.read_sql('postgresql', 'facts'));"
        "print(files.list_matrix_names(), files.make_switch_inventory('shelly'));"
        "print(sorted(e.name for e in files.find_data_folder('inventory').iterdir()))",
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
    assert ".chart {" in page
    for id in ("witness-disk-full", "witness-log", "missing-tail", "pg-fsync"):
        assert run(place / "bin" / "dbcheck", "explain", id, cwd=elsewhere)


@pytest.mark.parametrize("pinned", [True, False], ids=["by its hash", "by its version"])
def test_a_wheel_that_was_exchanged_is_refused(pinned: bool, tmp_path: Path) -> None:
    """As a package index could do it; pip alone takes any file with that name."""
    pins = (ROOT / "constraints" / "dbcheck.txt").read_text()
    found = re.search(r"^click==([\d.]+) \\\n(?:    --hash=.*\n)+", pins, re.M)
    assert found
    head = "".join(line for line in pins.splitlines(True) if line.startswith("--"))
    version = found[1]
    described = f"click-{version}.dist-info"
    with zipfile.ZipFile(tmp_path / f"click-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("click.py", "print('of another')")
        kept = f"Metadata-Version: 2.1\nName: click\nVersion: {version}\n"
        wheel.writestr(f"{described}/METADATA", kept)
        tagged = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        wheel.writestr(f"{described}/WHEEL", tagged)
        wheel.writestr(f"{described}/RECORD", "")
    wanted = head + found[0] if pinned else f"click=={version}\n"
    (tmp_path / "wanted.txt").write_text(wanted)
    done = subprocess.run(
        (
            *(sys.executable, "-m", "pip", "install", "--no-index", "--no-deps"),
            *("--find-links", tmp_path, "--target", tmp_path / "to"),
            *("-r", tmp_path / "wanted.txt"),
        ),
        env={name: value for name, value in os.environ.items() if "PIP_" not in name},
        capture_output=True,
        text=True,
    )
    assert (done.returncode == 0) is not pinned, done.stdout + done.stderr
    assert (tmp_path / "to" / "click.py").exists() is not pinned
    assert ("DO NOT MATCH THE HASHES" in done.stderr) is pinned, done.stderr
