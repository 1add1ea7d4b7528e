"""What users install, by the wheel or by README's commands, works elsewhere."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
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
    *(
        "setup.cfg",
        "setup.py",
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "docs",
        "constraints",
    ),
)


def run(*words: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    given = os.environ if env is None else env
    # With PYTHONPATH pip would find dbcheck there, and install nothing.
    kept = {name: value for name, value in given.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        words, cwd=cwd, env=kept, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def copy_source(made: Path) -> Path:
    """Copy the checkout without anything that was built or installed in it."""
    made.mkdir()
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.so")
    for name in KEPT:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, made / name, ignore=ignore)
        else:
            shutil.copy(ROOT / name, made / name)
    return made


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return copy_source(tmp_path / "source")


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


PYTHONS = [
    python
    for minor in range(11, 15)
    for python in (
        [f"/usr/bin/python3.{minor}"]
        + sorted(map(str, Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python")))
    )
    if os.access(python, os.X_OK)
] or [sys.executable]


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with sdist and wheel, as by make dist; no source is left."""
    folder = tmp_path_factory.mktemp("dist")
    source = copy_source(folder / "source")
    build(source, folder / "dist")
    shutil.rmtree(source)
    return folder / "dist"


def build(source: Path, to: Path) -> None:
    manpages.write(source / manpages.FOLDER.relative_to(ROOT))
    env = os.environ | {"SOURCE_DATE_EPOCH": "1700000000"}
    run(sys.executable, "-m", "build", "-o", to, source, cwd=source, env=env)
    (packed,) = to.glob("*.tar.gz")
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", to)
    run(*pip, packed, cwd=source, env=env | {"DBCHECK_WITHOUT_C": "1"})


@pytest.mark.wide
def test_two_builds_have_the_same_bytes(dist: Path, tmp_path: Path) -> None:
    """Of files with other times, that are read in another order, by another umask."""
    source = copy_source(tmp_path / "elsewhere")
    for path in source.rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(path.stat().st_mode & 0o700)
    build(source, tmp_path / "dist")
    assert digests(tmp_path / "dist") == digests(dist)
    assert len(digests(dist)) == 3


@pytest.mark.wide
def test_without_a_compiler_all_but_the_part_in_c_is_installed(
    source: Path, tmp_path: Path
) -> None:
    env = os.environ | {"CC": "/bin/false"}
    install = ("-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation")
    place = tmp_path / "place"
    run(sys.executable, *install, "--target", place, source, cwd=tmp_path, env=env)
    loads = place / "dbcheck" / "load"
    assert (loads / "compiled.py").is_file()
    assert not list(loads.glob("*.so"))


def digests(folder: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
    }


@pytest.mark.wide
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("suffix", ["-abi3-*.whl", "-none-any.whl", ".tar.gz"])
def test_what_is_released_holds_all_it_needs(
    dist: Path, python: str, suffix: str, tmp_path: Path
) -> None:
    """In an empty environment, and in a folder that has nothing of the repository."""
    (wheel,) = dist.glob(f"*{suffix}")
    place = tmp_path / "empty"
    run(python, "-m", "venv", place, cwd=tmp_path)
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
    compiled = run(
        place / "bin" / "python",
        "-c",
        "from dbcheck.load.compiled import load_rounds; print(load_rounds())",
        cwd=elsewhere,
    )
    if suffix != ".tar.gz":  # it depends on the compiler here
        assert (compiled == "None\n") == (suffix == "-none-any.whl")
    shutil.copytree(STORED_RUN, elsewhere / "run")
    page = run(
        place / "bin" / "dbcheck", "report", "run", "--format", "html", cwd=elsewhere
    )
    assert ".chart {" in page
    for id in ("witness-disk-full", "witness-log", "missing-tail", "pg-fsync"):
        assert run(place / "bin" / "dbcheck", "explain", id, cwd=elsewhere)
    run(place / "bin" / "dbcheck", "init", cwd=elsewhere)
    packages = run(place / "bin" / "pip", "list", cwd=elsewhere)
    assert "ansible" not in packages  # an extra, which the inventory of init is without
    code = (
        "from pathlib import Path; from dbcheck.inventory.load import load_inventory;"
        "print(sorted(load_inventory(Path('inventory.yml')).entries))"
    )
    assert "'db1'" in run(place / "bin" / "python", "-c", code, cwd=elsewhere)


def test_the_urls_of_the_project_come_from_one_setting(tmp_path: Path) -> None:
    for name in ("setup.py", "setup.cfg"):
        shutil.copy(ROOT / name, tmp_path / name)
    print_urls = "import setup; print(setup.make_urls())"
    code = f"import setuptools; setuptools.setup = lambda **_: None; {print_urls}"
    assert run(sys.executable, "-c", code, cwd=tmp_path) == "{}\n"
    config = tmp_path / "setup.cfg"
    text = config.read_text()
    filled = text.replace("repository =\n", "repository = https://x.example/o/d/\n")
    config.write_text(filled)
    urls = run(sys.executable, "-c", code, cwd=tmp_path)
    assert "'Issues': 'https://x.example/o/d/issues'" in urls
    assert "'Source': 'https://x.example/o/d'" in urls


def test_the_changelog_has_a_dated_section_of_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    first = re.findall(r"^## (.*)$", text, re.M)[0]
    version, date = first.split(maxsplit=1)
    assert version == dbcheck.__version__
    assert re.fullmatch(r"\(\d{4}-\d\d-\d\d\)", date)


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
