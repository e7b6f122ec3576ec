"""What counts as a line of code, and how the table is written."""

from __future__ import annotations

from pathlib import Path

from tests.figures import code_lines, table


def test_docstrings_comments_and_empty_lines_are_no_code(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text('"""Says\nmuch."""\n\nimport os  # why\n# more\nX = """not\na docstring"""\n"""Of X."""\n')
    assert code_lines(path) == ({4, 6, 7}, {4})


def test_table_has_a_column_for_each_tree() -> None:
    assert table({"before": {"files": "2"}, "after": {"files": "1"}}).splitlines() == [
        "| | before | after |",
        "|---|---:|---:|",
        "| files | 2 | 1 |",
    ]
