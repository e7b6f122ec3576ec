"""A tier of Aiven's plugin, in all its forms, read as one log dir."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from storage.log.listing import list_partition
from storage.log_dir import LogDir
from storage.names import TopicPartition
from storage.tiers.aiven import decode_sizes
from storage.tiers.metadata import metadata_partition
from storage.tiers.segments import TierFile
from storage.tiers.tier import Tier
from storage.tiers.view import view_at, view_of
from tests.tiers.drawn import (
    AivenForm,
    DrawnSegment,
    MetadataWriter,
    a_batch,
    aiven_key,
    custom_metadata,
    encoded_sizes,
    segment_of,
    write_aiven,
)
from tests.tiers.test_local import METADATA_PARTITION, ORDERS, values_in

TEXTS = [f"value {n} " * (n % 5 + 1) for n in range(20)]


def two_segments() -> list[DrawnSegment]:
    first = [a_batch(n, TEXTS[n]) for n in range(12)]
    second = [a_batch(n, TEXTS[n]) for n in range(12, 20)]
    return [segment_of(0, *first), segment_of(12, *second, aborted=b"")]


@pytest.fixture(scope="module")
def key() -> RSAPrivateKey:
    return generate_private_key(65537, 2048)


@pytest.fixture
def key_file(key: RSAPrivateKey, tmp_path: Path) -> Path:
    path = tmp_path / "private.pem"
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return path


@pytest.mark.parametrize("is_compressed", [False, True])
@pytest.mark.parametrize("is_encrypted", [False, True])
@pytest.mark.parametrize("is_variable", [False, True])
@pytest.mark.parametrize("chunk_bytes", [7, 100, 1 << 22])
def test_every_form_gives_the_original_files(
    tmp_path: Path,
    key: RSAPrivateKey,
    key_file: Path,
    is_compressed: bool,
    is_encrypted: bool,
    is_variable: bool,
    chunk_bytes: int,
) -> None:
    form = AivenForm("", chunk_bytes, is_compressed, key if is_encrypted else None, is_variable=is_variable)
    drawn = two_segments()
    path = write_aiven(tmp_path / "tier", drawn, form)
    tier = Tier.open(path, keys=[f"key-1={key_file}"])
    assert tier.partitions == (ORDERS,)
    for segment, was in zip(tier.segments(ORDERS), drawn, strict=True):
        assert (segment.start_offset, segment.end_offset, segment.size_bytes) == (was.start, was.end, len(was.log))
        files = tier.layout.files(segment)
        assert {f".{kind.value[1:]}": bytes(f.read(0, f.size_bytes)) for kind, f in files.items()} == was.files()
        for start, end in ((0, 1), (3, 250), (99, 101), (len(was.log) - 1, len(was.log) + 5)):
            assert bytes(files[TierFile.LOG].read(start, end)) == was.log[start:end]
    assert values_in(view_of(path, keys=[str(key_file)])) == list(enumerate(TEXTS))


@pytest.mark.parametrize(
    ("prefix", "named"), [("", ""), ("some/dir/", "some/dir"), ("some/pre-", "some/pre-"), ("pre-", "pre-")]
)
def test_a_prefix_is_joined_as_it_is(tmp_path: Path, prefix: str, named: str) -> None:
    tier = write_aiven(tmp_path / "tier", two_segments(), AivenForm(prefix))
    view = view_of(tier / named)
    assert [name for name, _ in LogDir.open(view).partitions()] == [TopicPartition("orders", 0)]
    assert values_in(view) == list(enumerate(TEXTS))


def test_without_the_key_encrypted_segments_are_left_out_and_named(tmp_path: Path, key: RSAPrivateKey) -> None:
    first, second = two_segments()
    tier = write_aiven(tmp_path / "tier", [first], AivenForm(key=key, key_id="main"))
    write_aiven(tier, [second])
    view = view_of(tier)
    assert values_in(view) == list(enumerate(TEXTS))[12:]
    found = view_at(view)
    assert found is not None
    (problem,) = found.problems
    assert "encrypted with the key 'main'" in problem
    assert "--tier-key main=FILE" in problem


def test_custom_metadata_say_where_a_segment_lies(tmp_path: Path) -> None:
    first, second = two_segments()
    write_aiven(tmp_path / "tier", [first], AivenForm("old-"))
    write_aiven(tmp_path / "tier", [second], AivenForm("new-"))
    writer = MetadataWriter()
    writer.copied(first, custom=custom_metadata("old-", aiven_key(first)))
    writer.copied(second)
    log_dir = writer.write(tmp_path / "data", METADATA_PARTITION)
    assert values_in(view_of(tmp_path / "tier" / "new-", [log_dir])) == list(enumerate(TEXTS))


def test_an_iceberg_manifest_is_refused_by_name(tmp_path: Path) -> None:
    tier = write_aiven(tmp_path / "tier", two_segments()[:1])
    next(tier.rglob("*.rsm-manifest")).write_text('{"version": "1", "segmentFormat": "iceberg"}')
    view = view_of(tier)
    assert list_partition(view / "orders-0").segments == ()
    found = view_at(view)
    assert found is not None
    assert "Iceberg mode" in next(iter(found.problems))


def test_a_chunk_that_changed_is_an_error_and_no_record(tmp_path: Path, key: RSAPrivateKey, key_file: Path) -> None:
    for number, form in enumerate((AivenForm(is_compressed=True), AivenForm(key=key))):
        tier = write_aiven(tmp_path / str(number), two_segments(), form)
        log = next(tier.rglob("*.log"))
        data = bytearray(log.read_bytes())
        data[len(data) // 2] ^= 0xFF
        log.write_bytes(data)
        with pytest.raises(Exception, match=r"chunk \d+|does not decrypt"):
            values_in(view_of(tier, keys=[str(key_file)]))


@given(st.lists(st.integers(0, 1 << 31), min_size=1, max_size=50))
def test_sizes_of_chunks_come_back(sizes: list[int]) -> None:
    last = sizes[-1] & 0x7FFFFFFF
    sizes = [*(size & 0x7FFFFFFF for size in sizes[:-1]), last]
    assert decode_sizes(encoded_sizes(sizes)) == sizes


def test_the_metadata_partition_is_one_of_the_topics() -> None:
    assert 0 <= metadata_partition(ORDERS, 50) < 50


def test_prefix_that_was_not_named_is_no_part_of_the_names_of_topics(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for prefix, place in (("some/prefix-", "some"), ("a-", "")):
        root = tmp_path / prefix.strip("/-")
        write_aiven(root, [segment_of(0, a_batch(0, "a"))], AivenForm(prefix=prefix))
        command = ["restore-tier", str(root / place), "--output", str(tmp_path / "out"), "-n"]
        assert main(command) == ExitStatus.USAGE
        assert f"so say {root / prefix};" in capsys.readouterr().err
        assert main([*command[:1], str(root / prefix), *command[2:]]) == ExitStatus.DONE
        assert "orders-0: offset" in capsys.readouterr().out
