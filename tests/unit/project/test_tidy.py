"""House rules that no linter checks."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from dbcheck.audit.rules import RULES
from dbcheck.base import errors
from dbcheck.engines.mysql.engine import MysqlEngine
from dbcheck.engines.postgresql.engine import PostgresqlEngine
from dbcheck.model.family import FAMILIES
from tests.kit.syntax import ROOT, SOURCES, TESTS, dotted, nodes_in, nodes_of
from tools.releases.__main__ import TESTS as OF_RELEASES

LINES_MAX = 50  # of a function, its docstring not counted
FILE_LINES_MIN, FILE_LINES_MAX = 60, 560
MODULES_MAX = 25  # of a package
# Shorter all the same: a table of numbers, what prints without rich, and the verbs
# that do little, each of which is a module as every verb is.
SHORT = {"base/limits.py", "cli/say.py"} | {
    f"cli/{verb}.py" for verb in ("completion", "init", "workloads")
}
PACKAGES = sorted(
    folder
    for source in (ROOT / "dbcheck").rglob("__init__.py")
    if (folder := str(source.parent.relative_to(ROOT / "dbcheck"))) != "."
)
MODULE = re.compile(r"(?<![\w*./-])(?:[a-z_0-9]+/)*[a-z_0-9]+\.py\b")
OF_OTHERS = {"fencing.py"}  # the fence agents'
VAGUE = {"utils", "helpers", "common", "manager", "misc"}


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


ASKS = re.compile(r"(What|Who|Whether|How|Which|Where|When|Why)\b")


def test_the_docstring_of_a_module_says_what_it_does_and_asks_nothing() -> None:
    asking = [
        named(source)
        for source in (*SOURCES, *sorted((ROOT / "tools").rglob("*.py")))
        if ASKS.match(source.read_text().removeprefix('"""'))
    ]
    assert not asking


def test_functions_fit_a_screen() -> None:
    long = []
    for source in SOURCES:
        for node in nodes_of(source):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if (lines := own_lines(node)) > LINES_MAX:
                long.append(f"{named(source)}:{node.lineno} {node.name}: {lines}")
    assert not long


def own_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return how many lines a function has, signature and docstring left out."""
    doc = ast.get_docstring(node, clean=False) or ""
    signature = (node.body[0].lineno - node.lineno) if node.args.args else 0
    return (node.end_lineno or 0) - node.lineno + 1 - doc.count("\n") - signature


def test_files_have_one_subject() -> None:
    assert not [named(source) for source in SOURCES if source.stem in VAGUE]
    long = {
        named(source): lines
        for source in SOURCES
        if (lines := len(source.read_text().splitlines())) > FILE_LINES_MAX
    }
    assert not long


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_has_few_modules_and_none_is_small(package: str) -> None:
    modules = [
        source
        for source in (ROOT / "dbcheck" / package).glob("*.py")
        if source.name != "__init__.py"
    ]
    assert len(modules) <= MODULES_MAX
    small = {
        named(source): lines
        for source in modules
        if (lines := len(source.read_text().splitlines())) < FILE_LINES_MIN
        and f"{package}/{source.name}" not in SHORT
    }
    assert not small


# Engines, labs, rules, logs, and the facts of families are about products by nature.
OF_PRODUCTS = re.compile(
    r"dbcheck/(engines|lab|server_log)/|audit/(mysql|postgresql)\.py|model/family\.py"
    r"|cli/(demo|lab)\.py|kubernetes/roles\.py"
)
PRODUCTS = {"postgresql", "mysql", "mariadb"}


def test_nothing_else_decides_by_the_name_of_a_product() -> None:
    found = [
        f"{named(source)}:{node.lineno}"
        for source in SOURCES
        if not OF_PRODUCTS.search(named(source))
        for node in nodes_of(source)
        if isinstance(node, ast.Constant) and node.value in PRODUCTS
    ]
    assert not found, "put the fact into model/family.py"


def test_each_family_has_its_facts_and_its_rules() -> None:
    assert FAMILIES.keys() == RULES.keys()
    assert {MysqlEngine.family, PostgresqlEngine.family} == FAMILIES.keys()


@pytest.mark.parametrize("path", sorted((ROOT / "sql").rglob("*.sql")), ids=named)
def test_a_statement_stands_alone_and_says_what_it_is_for(path: Path) -> None:
    text = path.read_text()
    assert text.startswith("-- ")
    body = re.sub(r"--.*", "", text).strip().rstrip(";")
    assert body
    assert ";" not in body


def test_every_verb_has_its_module_and_its_help() -> None:
    from dbcheck.cli.root import VERBS

    for verb, text in VERBS.items():
        assert (ROOT / "dbcheck" / "cli" / f"{verb}.py").is_file()
        assert text.endswith(".")


# They run on hosts that have no dbcheck, so they cannot import it.
AGENTS = {
    "dbcheck/agent/host/facts.py",
    "dbcheck/agent/host/journal.py",
    "dbcheck/agent/host/serve.py",
}
STARTS = re.compile(
    r"os\.(system|popen|exec\w+|spawn\w+|posix_spawn\w*)$|.*\bcreate_subprocess_\w+$"
    r"|subprocess\.(run|Popen|call|check_call|check_output|getoutput|getstatusoutput)$"
)


def test_children_are_started_by_one_rule() -> None:
    """processes.py builds the command line of each Python, and each env is chosen."""
    wrong = []
    for source in SOURCES:
        if source.stem == "processes":
            continue
        for node in nodes_of(source):
            if not isinstance(node, ast.expr):
                continue
            if starts_python(node) or (
                inherits_all(node) and named(source) not in AGENTS
            ):
                wrong.append(f"{named(source)}:{node.lineno} {ast.unparse(node)[:60]}")
    assert not wrong


def starts_python(node: ast.AST) -> bool:
    """Say whether an expression is part of a command line of Python."""
    if isinstance(node, ast.Constant):
        return node.value == "-m"
    return isinstance(node, ast.Attribute) and dotted(node) == "sys.executable"


def inherits_all(node: ast.AST) -> bool:
    """Say whether a call starts a child without choosing its environment."""
    if not (isinstance(node, ast.Call) and STARTS.match(dotted(node.func))):
        return False
    return not any(keyword.arg == "env" for keyword in node.keywords)


# Also `from tests.unit import test_x`, and what is imported in a function.
IMPORTED = re.compile(r"^ *(?:from|import) tests\b.*\btest_\w+", re.M)


@pytest.mark.parametrize("kind", ["unit", "real"])
def test_tests_lie_in_the_folder_of_a_package(kind: str) -> None:
    folders = {path.parent for path in (ROOT / "tests" / kind).rglob("test_*.py")}
    known = {ROOT / "tests" / kind / name for name in (*PACKAGES, "project")}
    assert folders and folders <= known


def test_no_test_module_is_imported() -> None:
    """What several tests use is in tests/kit, so that a test file holds tests alone."""
    wrong = [
        f"{named(source)}: {found}"
        for source in TESTS
        for found in IMPORTED.findall(source.read_text())
    ]
    assert not wrong, "move what is imported to tests/kit"


# They bear no text: an interrupt, the end of a connection, a limit of time, or a class
# of which there is one cause.
WITHOUT_TEXT = {
    "KeyboardInterrupt",
    "EOFError",
    "TimeoutError",
    "NotAMessage",
    "NotUnderstood",
}


@cache
def expectations() -> list[tuple[str, ast.Call]]:
    """Return each call of pytest.raises, and where it stands."""
    return [
        (f"{named(source)}:{node.lineno}", node)
        for source in TESTS
        if "pytest.raises" in (text := source.read_text())
        for node in nodes_in(text)
        if isinstance(node, ast.Call) and dotted(node.func) == "pytest.raises"
    ]


def test_each_expected_error_is_named_by_its_text_or_id() -> None:
    """Else a test passes for any error of that class, also a wrong one."""
    wrong = [
        where
        for where, node in expectations()
        if ast.unparse(node.args[0]) not in WITHOUT_TEXT
        and not any(keyword.arg in ("match", "check") for keyword in node.keywords)
    ]
    assert not wrong, "use tests.kit.refusals, or give match="


KINDS = {name for name, kind in vars(errors).items() if isinstance(kind, type)}
# Those whose id depends on the case, or whose text another program decides.
SENTENCES_MAX = 57


def test_an_error_of_dbcheck_is_named_by_its_id() -> None:
    """A sentence may be reworded, so no more tests than there are depend on one."""
    found = [
        where
        for where, node in expectations()
        if ast.unparse(node.args[0]).removeprefix("errors.") in KINDS
        and any(keyword.arg == "match" for keyword in node.keywords)
    ]
    assert len(found) <= SENTENCES_MAX, "use tests.kit.refusals.refused"


PRINTING = ("cli/say.py", "cli/output.py", "report/console.py")
PRINTS = re.compile(r"(print|click\.s?echo|Console)$|sys\.std(out|err)\.write")


def test_two_modules_alone_print() -> None:
    """All that is shown passes through one of them, where it is made visible."""
    own = {ROOT / "dbcheck" / name for name in PRINTING}
    found = [
        f"{named(source)}:{node.lineno}"
        for source in SOURCES
        if source not in own
        for node in nodes_of(source)
        if isinstance(node, ast.Call) and PRINTS.match(dotted(node.func))
    ]
    assert not found


def test_a_module_that_a_text_names_exists() -> None:
    """A comment or document that names a module by its path or name is true."""
    modules = [named(source) for source in SOURCES + TESTS]
    documents = (ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md"))
    decisions = (ROOT / "docs" / "decisions").glob("*.md")
    texts = [*SOURCES, *documents, ROOT / "docs" / "glossary.md", *decisions]
    stale = {
        f"{named(text)}: {path}"
        for text in texts
        for path in MODULE.findall(text.read_text())
        if path not in OF_OTHERS
        and not any(f"/{m}".endswith(f"/{path}") for m in modules)
    }
    assert not stale


def test_the_tests_that_other_releases_run_exist() -> None:
    assert not [test for test in OF_RELEASES if not (ROOT / test).is_file()]
