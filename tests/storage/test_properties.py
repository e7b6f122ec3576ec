from pathlib import Path

import pytest

from storage.errors import InvalidConfig, UnreadableFile
from storage.properties import Property, parse_properties, read_properties


def values(text: str | bytes) -> dict[str, str]:
    data = text if isinstance(text, bytes) else text.encode()
    return {key: found.value for key, found in parse_properties(data, "server.properties").items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("  a \t = \t b c  ", {"a": "b c  "}),
        ("a = = b", {"a": "= b"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=b", {"": "b"}),
        ("# a=b\n ! c=d\n\n \t\n", {}),
        ("a=b # no comment", {"a": "b # no comment"}),
        ("a=1\r\nb=2\rc=3\n", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("dirs=/a,\\\n    /b,\\\n\t/c", {"dirs": "/a,/b,/c"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\", {"a": "b"}),
        ("a=1\\\n# still the value", {"a": "1# still the value"}),
        ("a\\ b\\:c\\=d = e", {"a b:c=d": "e"}),
        ("a=\\t\\n\\r\\f\\q\\\\", {"a": "\t\n\r\fq\\"}),
        ("a=\\u00e4\\u20AC", {"a": "ä€"}),
        ("a=ä", {"a": "ä"}),
        ("a=ä".encode("latin-1"), {"a": "ä"}),
        ("", {}),
    ],
)
def test_lines_are_read_as_java_reads_them(text: str | bytes, expected: dict[str, str]) -> None:
    assert values(text) == expected


def test_each_value_keeps_the_line_of_its_key() -> None:
    found = parse_properties(b"# head\na=1\\\n  2\n\nb=3\n", "server.properties")
    assert found == {"a": Property("12", 2), "b": Property("3", 5)}


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\uxyzw", "\\u=1"])
def test_a_malformed_unicode_escape_names_file_and_line(text: str) -> None:
    with pytest.raises(InvalidConfig, match=r"server\.properties line 2.*malformed"):
        values("\n" + text)


def test_a_malformed_password_is_not_told() -> None:
    with pytest.raises(InvalidConfig) as caught:
        values("ssl.key.password=hunter2\\u12")
    assert "ssl.key.password" in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "is_hidden"),
    [
        ("ssl.keystore.password", True),
        ("listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config", True),
        ("sasl.oauthbearer.client.credentials.client.secret", True),
        ("ssl.keystore.key", True),
        ("retention.ms", False),
    ],
)
def test_no_error_shows_the_value_of_a_key_that_may_be_a_secret(key: str, is_hidden: bool) -> None:
    told = str(InvalidConfig(key, "hunter2", "must be a number", "server.properties line 3"))
    assert ("hunter2" in told, "[hidden]" in told) == (not is_hidden, is_hidden)


def test_a_file_that_is_not_there_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile):
        read_properties(tmp_path / "server.properties")


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    path.write_bytes(b"#\n#Sat Nov 21 06:02:11 UTC 2026\nnode.id=1\n")
    assert read_properties(path)["node.id"].value == "1"
