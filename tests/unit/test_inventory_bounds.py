"""Inventories that mean more than they say, and how much one may mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbcheck.errors import UsageError
from dbcheck.inventory import load

DIAMONDS = "".join(
    f"a{n}: {{children: {{a{n + 1}: , b{n + 1}: }}}}\n"
    f"b{n}: {{children: {{a{n + 1}: , b{n + 1}: }}}}\n"
    for n in range(60)
)


CHAIN = "".join(f"g{n}: {{children: {{g{n + 1}: }}}}\n" for n in range(1500))


LAUGHS = "a0: &a0 [1, 1]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30)
)


TEMPLATES = "all:\n  hosts: {h: }\n  vars:\n    v8: ''\n" + "".join(
    f"    v{n}: '{f'{{{{ v{n + 1} }}}}' * 1000}'\n" for n in range(1, 8)
)


def read_inventory(folder: Path, text: str) -> load.Inventory:
    path = folder / "hosts.yml"
    path.write_text(text)
    return load.load(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"all: {{vars: {{x: {'[' * 99}{']' * 99}}}}}\n", "nests more than 100"),
        (f"all: {{vars: {{x: 1}}}}\n{LAUGHS}", "has more than 300000"),
        ("all: {hosts: {'db[1:9999][1:9999]': }}\n", "more than 10000 hosts"),
        (f"all: {{vars: {{x: 0x{'f' * 5000}}}}}\n", "a number of 20000 bits"),
        ("all: {? {? {a: []} : 1} : 2}\n", "is not YAML"),
        ("all: {vars: {ansible_group_priority: .inf}}\n", "not a number"),
    ],
)
def test_inventories_that_mean_too_much(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_inventory(tmp_path, text)


@pytest.mark.parametrize(
    "text", [DIAMONDS, CHAIN, f"{'g' * 300}: {{hosts: {{h: }}}}\n"]
)
def test_groups_of_any_shape_are_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "group_vars").mkdir()
    assert not read_inventory(tmp_path, text).entries


def test_a_value_is_filled_in_once(tmp_path: Path) -> None:
    """Else it would be 1000 to the power of 7 times."""
    target = "    dbcheck_target: 'postgresql://{{ v1 }}'\n"
    found = read_inventory(tmp_path, TEMPLATES + target)
    assert found.entry("h").target == "postgresql://"


def test_a_value_does_not_grow_beyond_measure(tmp_path: Path) -> None:
    text = TEMPLATES.replace("v8: ''", "v8: x") + "    dbcheck_target: '{{ v1 }}'\n"
    with pytest.raises(UsageError, match="too long once it is filled in"):
        read_inventory(tmp_path, text).entry("h")
