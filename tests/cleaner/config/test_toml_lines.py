import tomllib

import pytest

from cleaner.config.settings import key_lines, leaves

FILE = '''# head

log.dirs = ["/a",   # a value over lines
  "/b",
]
"server.properties" = "/x"
note = """
[not.a.table]
a = 1
"""

[defaults]
  retention.ms = 5
"segment.ms" = 6 # [tail]

[topics."a.b"]
[topics.orders]
x = { y = 1, z = 2 }
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("log", "dirs"), 3),
        (("server.properties",), 6),
        (("note",), 7),
        (("defaults",), 12),
        (("defaults", "retention", "ms"), 13),
        (("defaults", "segment.ms"), 14),
        (("topics", "a.b"), 16),
        (("topics", "orders", "x", "y"), 18),
        (("topics", "orders", "x", "z"), 18),
    ],
)
def test_each_key_is_found_on_its_line(path: tuple[str, ...], line: int) -> None:
    assert key_lines(FILE)[path] == line


@pytest.mark.parametrize("text", [FILE, FILE.replace("\n", "\r\n"), "", "[[a]]\nb = 1\n[[a]]\nb = 2\n", "a.b = []"])
def test_every_leaf_of_a_document_has_a_line(text: str) -> None:
    lines = key_lines(text)
    assert {path for path, _ in leaves(tomllib.loads(text))} <= set(lines)


def test_an_empty_table_is_a_leaf() -> None:
    assert list(leaves({"topics": {"orders": {}}, "a": 1})) == [(("topics", "orders"), {}), (("a",), 1)]
