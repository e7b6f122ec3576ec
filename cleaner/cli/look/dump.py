"""The command ``dump``: it shows what files of a log dir hold, as Kafka's kafka-dump-log does."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cleaner.cli.exit_status import ExitStatus, complain, help_on, lines_of
from cleaner.cli.look.selecting import add_selection_arguments, selection_of
from cleaner.cli.naming import check_partition
from cleaner.cli.opening import add_place_arguments, open_log_dirs
from cleaner.journald import Level
from cleaner.printable import printable_lines
from storage.errors import InvalidConfig, LogCleanerError
from storage.names import parse_partition_dir_name, parse_topic_partition
from storage.stores.paths import located

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cleaner.dump.files import DumpedFile
    from cleaner.dump.options import DumpOptions, TopicDecoder
    from storage.scan.selected import RecordSelection

HELP: Final = "show what files hold, line for line as kafka-dump-log"
_OPERAND: Final = "FILE|TOPIC-PARTITION"
_DECODERS: Final = {
    "offsets": "__consumer_offsets",
    "transaction-log": "__transaction_state",
    "cluster-metadata": "the cluster metadata log",
    "remote-log-metadata": "__remote_log_metadata",
    "share-group-state": "__share_group_state",
}
_INT32_MAX: Final = (1 << 31) - 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``dump``."""
    parser.usage = f"%(prog)s {_OPERAND} ... [options]"
    parser.epilog = help_on(
        ExitStatus.DONE, ExitStatus.FAILED, ExitStatus.USAGE, ExitStatus.DAMAGED, ExitStatus.NOT_YET,
        also={
            ExitStatus.DONE: "everything was shown",
            ExitStatus.FAILED: "a file could not be read; the others were shown",
            ExitStatus.DAMAGED: "damage was found; what could be read was shown",
        },
    )  # fmt: skip
    parser.add_argument(
        "what",
        nargs="+",
        metavar=_OPERAND,
        help="a file, a directory with files, or a partition of the log dirs",
    )
    _add_kafkas(parser.add_argument_group("as kafka-dump-log"))
    add_selection_arguments(parser)
    output = parser.add_argument_group("result")
    output.add_argument("--only-batches", action="store_true", help="show batches, and none of their records")
    output.add_argument("--json", action="store_true", help="print JSON lines, schema logcleaner.dump/1")
    add_place_arguments(parser, with_topics=False, with_tier=True)
    parser.set_defaults(reads_stores=True)


def _add_kafkas(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--print-data-log", action="store_true", help="show each record with its key and its value")
    group.add_argument("--deep-iteration", action="store_true", help="show each record, without key and value")
    group.add_argument("--skip-record-metadata", action="store_true", help="show only key and value of each record")
    group.add_argument("--verify-index-only", action="store_true", help="compare an index with its log; show no entry")
    group.add_argument("--index-sanity-check", action="store_true", help="check an index as a starting broker does")
    group.add_argument(
        "--max-bytes", type=_int32, default=_INT32_MAX, metavar="BYTES", help="read at most BYTES of each log"
    )
    group.add_argument(
        "--max-message-size",
        type=_int32,
        default=5 << 20,
        metavar="BYTES",
        help="size of the largest batch to which an index may point (default: 5 MiB)",
    )
    decoders = group.add_mutually_exclusive_group()
    for name, topic in _DECODERS.items():
        decoders.add_argument(
            f"--{name}-decoder",
            action="store_const",
            const=name,
            dest="decoder",
            help=f"decode the records of {topic}",
        )
    for field in ("key", "value"):
        group.add_argument(
            f"--{field}-decoder",
            choices=("string", "long", "integer"),
            default="string",
            help=f"type of each {field}, for the text (default: string)",
        )


def _int32(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 11 and int(text) <= _INT32_MAX):
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number of bytes, at most {_INT32_MAX}")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Show the files, and tell what was wrong."""
    from storage.kernels import check_usable

    check_usable()
    from cleaner.dump.dumping import dump
    from cleaner.dump.options import DumpOptions, PlainDecoder

    selection, redact = selection_of(args)
    options = DumpOptions(
        print_data_log=args.print_data_log,
        deep_iteration=args.deep_iteration,
        skip_record_metadata=args.skip_record_metadata,
        verify_index_only=args.verify_index_only,
        index_sanity_check=args.index_sanity_check,
        max_bytes=args.max_bytes,
        max_message_size=args.max_message_size,
        decoder=_decoder(args, selection),
        key_decoder=PlainDecoder(args.key_decoder),
        value_decoder=PlainDecoder(args.value_decoder),
        selection=selection,
        only_batches=args.only_batches,
        redact=redact,
    )
    told, write, is_terminal = _Told(), sys.stdout.buffer.write, sys.stdout.isatty()

    def to(lines: bytes | memoryview) -> None:
        told.is_anything_shown = True
        write(printable_lines(lines) if is_terminal else lines)

    told.lines += dump(_files(args, options, told), options, to, told.failed, as_json=args.json)
    sys.stdout.buffer.flush()
    if not told.is_anything_shown and not selection.takes_all and told.status == ExitStatus.DONE:
        complain("no record matches the selection; all that was named was read")
    if told.lines:
        sys.stderr.write("".join(f"{line}\n" for line in told.lines))
    return told.status


def _decoder(args: argparse.Namespace, selection: RecordSelection) -> TopicDecoder | None:
    """Return the decoder that an option names.

    Without an option, but with a selection, return the decoder of the internal topic that is shown.

    Without a selection, the output is that of Kafka's tool, which knows no topics.
    """
    from cleaner.dump.contents import decoder_of
    from cleaner.dump.options import TopicDecoder

    if args.decoder is not None:
        return TopicDecoder(args.decoder)
    is_kafkas = selection.takes_all or args.print_data_log or args.deep_iteration
    if is_kafkas or (args.key_decoder, args.value_decoder) != ("string", "string"):
        return None
    places = [located(word).absolute() for word in args.what]
    names = [parse_partition_dir_name((path.parent if path.is_file() else path).name) for path in places]
    topics = {name.topic_partition.topic if name else "" for name in names}
    return decoder_of(topics.pop()) if len(topics) == 1 else None


class _Told:
    """The lines for stderr, and the exit status that follows from them."""

    def __init__(self) -> None:
        self.status: int = ExitStatus.DONE
        self.lines: list[str] = []
        self.is_anything_shown = False

    def failed(self, error: LogCleanerError) -> None:
        """Print an error at once. For the exit status, damage outweighs a file that could not be read."""
        from storage.errors import Corrupt

        for line in lines_of(error):
            complain(line, Level.ERROR)
        if isinstance(error, Corrupt):
            self.status = ExitStatus.DAMAGED
        elif self.status != ExitStatus.DAMAGED:
            self.status = ExitStatus.FAILED

    def lost_since_the_copy(self, directory: Path) -> None:
        """Print an error if the partition lies in a finished copy that lost segments of it."""
        from cleaner.engine.inventory import lost_since_the_copy
        from storage.log_dir import LogDir

        name = parse_topic_partition(directory.name)
        error = None if name is None else lost_since_the_copy(LogDir(directory.parent), name.__eq__)
        if error is not None:
            self.failed(error)

    def unknown(self, path: Path) -> None:
        """Print, in the words of Kafka's tool, that a file's name tells no kind."""
        from cleaner.dump.files import without_controls

        sys.stderr.write(f"Ignoring unknown file {without_controls(str(path))}\n")


def _files(args: argparse.Namespace, options: DumpOptions, told: _Told) -> Iterator[DumpedFile]:
    """Yield the files to show; list the files of an operand when its turn comes."""
    from cleaner.dump.files import files_in, recognised, within

    only_batches = options.reads_records or options.only_batches
    for word in args.what:
        path = located(word)
        if path.is_dir():
            told.lost_since_the_copy(path)
            yield from within(files_in(path, only_batches=only_batches), options.selection)
        elif path.exists() or recognised(path) or parse_topic_partition(word) is None:
            file = recognised(path)
            if file is None and not path.exists():
                raise InvalidConfig(_OPERAND, word, "is no file, no directory and no partition such as orders-3")
            if file is None and not path.is_file():
                raise InvalidConfig(_OPERAND, word, "is no plain file: dump knows what a file holds by its name")
            if file is None:
                told.unknown(path)
            else:
                yield file
        else:
            for directory in _directories(args, word, with_strays=options.selection.key is not None):
                told.lost_since_the_copy(directory)
                yield from within(files_in(directory, only_batches=only_batches), options.selection)


def _directories(args: argparse.Namespace, word: str, *, with_strays: bool) -> list[Path]:
    """Return the directories of a partition. Raises: InvalidConfig if no log dir has it."""
    wanted = parse_topic_partition(word)
    assert wanted is not None
    log_dirs = open_log_dirs(args)
    found = []
    for log_dir in log_dirs:
        for path in sorted(log_dir.path.iterdir()):
            name = parse_partition_dir_name(path.name)
            is_wanted = name is not None and name.topic_partition == wanted and (with_strays or not name.state.value)
            if is_wanted and path.is_dir() and not path.is_symlink():
                found.append(path)
    if not found:
        check_partition(wanted, (name for log_dir in log_dirs for name, _ in log_dir.partitions()), log_dirs)
    return found
