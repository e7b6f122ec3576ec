"""The first line of a docstring tells a newcomer what the thing does or is: a sentence, not a fragment.

``FRAGMENTS`` and ``NOT_IMPERATIVE`` say how many of each folder break the two rules: none does, and none may.
``python -m tests.test_docstrings [FOLDER]`` lists the breaches, and prints both tables.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
OURS = ("cleaner", "policies", "storage")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


OPENS_A_FRAGMENT = _words(
    """
    Of For In On With Without Where Which What Whether Who Whose Whom Why How When Behind Before Between Within
    From By At To As Into Onto Since Until Out Over Under Beside Besides Through Against Than Like And Or So
    Then Else Those Its Their Them They Also Nothing None
    """
)
"""Prepositions, question words, pronouns without their noun. ``If``, ``While``, ``Once`` open plain sentences."""

VERBS = _words(
    """
    accept add adopt advance aim allow answer append apply ask assign attach await backport begin bind borrow
    bring build calculate call cancel carry catch change check choose claim clean clear close collect combine
    come compact compare compile complain complete compress compute confirm connect convert copy correct count
    cover create cross cut decide declare decode decompress defer define delete deliver demand describe detect
    determine digest disable divide do double drain draw drop empty enable encode end ensure enter escape
    estimate evaluate examine exchange exclude execute expand expect expire explain export extend fail feed
    fetch fill filter find finish fit fix flush fold follow forget forgive format free gather generate get give
    go group grow guard guess halve hand handle hash have hear hide hold ignore include increase index inherit
    insert inspect join judge keep know lay leave let limit link list listen load locate lock log look lower
    make map mark match measure meet merge mind move name narrow normalize note number observe offer omit open
    order pack pad parse pass pick place plan plot point poll predict prefer prepare prevent print probe produce
    propose protect prove publish pull push put query quit quote raise read realise rebuild receive recompress
    record recover reduce refer refuse register reject release remember remove rename render repeat replace
    replay report request require reset resolve restart restore restrict return reverse rewrite roll round run
    save say scan schedule seal search see select send separate serialize serve set settle share ship show
    shrink shut sign skip sleep sort spend split spread stamp start state stay step stop store strip submit
    subtract sum survey swap sweep switch synchronise take tell terminate test tidy track transfer translate
    treat trim truncate try turn undo unlink unlock unpack update upgrade use validate verify wait wake walk
    warn watch weigh widen withdraw work wrap write yield
    """
)
HELPING = _words(
    """
    am is are was were be been has have had does do did can cannot could may might must shall should will would
    """
)
THIRD_PERSON = HELPING | {f"{verb}s" for verb in VERBS} | {f"{verb}es" for verb in VERBS}
THIRD_PERSON |= {f"{verb[:-1]}ies" for verb in VERBS if verb.endswith("y")} | {"go", "come", "stay", "keep", "hold"}
HEAD_ENDS = re.compile(r"[,;:(]|\b(?:that|which|who|whose|where|when|if|unless|as|what|why|how|than)\b|\. |\.$")
"""What stands behind these is a clause of its own: its verb makes no sentence of what stands before."""

FRAGMENTS: dict[str, int] = {}
NOT_IMPERATIVE: dict[str, int] = {}


class Docstring(NamedTuple):
    """The first line of a module's, a class's or a function's docstring."""

    folder: str
    place: str
    is_function: bool
    text: str


@cache
def docstrings() -> tuple[Docstring, ...]:
    """Parse all files of ours, once."""
    return tuple(_docstrings())


def _docstrings() -> Iterator[Docstring]:
    for package in OURS:
        for path in sorted((ROOT / package).rglob("*.py")):
            place = path.relative_to(ROOT)
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    text = ast.get_docstring(node) or ""
                    line = getattr(node, "lineno", 1)
                    if text:
                        yield Docstring(
                            place.parent.as_posix(), f"{place}:{line}", is_function(node), text.splitlines()[0]
                        )


def is_fragment(text: str) -> bool:
    """Whether the first word is one that opens no plain sentence."""
    first = re.match(r"[A-Za-z']+", text)
    return first is not None and first[0] in OPENS_A_FRAGMENT


def is_sentence(text: str) -> bool:
    """Whether a text opens with an imperative, or has a verb before its first comma, colon or clause."""
    words = re.findall(r"[A-Za-z][A-Za-z'-]*|``[^`]*``", text)
    if words and words[0][0].isupper() and words[0].lower() in VERBS:
        return True
    end = HEAD_ENDS.search(text)
    head = text[: end.start()] if end else text
    return any(word in THIRD_PERSON for word in re.findall(r"[a-z]+", re.sub(r"``[^`]*``", "", head)))


def is_function(node: ast.AST) -> bool:
    """Whether this is a function that is not read like an attribute: of that, a noun phrase says what it is."""
    decorators = [ast.unparse(decorator) for decorator in getattr(node, "decorator_list", ())]
    is_value = any(name.split(".")[-1] in ("property", "cached_property") for name in decorators)
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not is_value


def breaks_a(doc: Docstring) -> bool:
    return is_fragment(doc.text)


def breaks_b(doc: Docstring) -> bool:
    return doc.is_function and not is_fragment(doc.text) and not is_sentence(doc.text)


RULES: dict[str, Callable[[Docstring], bool]] = {"FRAGMENTS": breaks_a, "NOT_IMPERATIVE": breaks_b}
"""What the first rule counts, the second does not count again."""


@pytest.mark.parametrize("rule", RULES)
def test_no_folder_has_more_of_them_than_before(rule: str) -> None:
    allowed: dict[str, int] = globals()[rule]
    offenders = [doc for doc in docstrings() if RULES[rule](doc)]
    counts = Counter(doc.folder for doc in offenders)
    told = "\n".join(f"{doc.place}: {doc.text}" for doc in offenders if counts[doc.folder] > allowed.get(doc.folder, 0))
    assert not told, f"{rule}: more than before in these folders:\n{told}"


@pytest.mark.parametrize("rule", RULES)
def test_no_number_is_higher_than_it_has_to_be(rule: str) -> None:
    counts = Counter(doc.folder for doc in docstrings() if RULES[rule](doc))
    lower = {folder: counts[folder] for folder, count in globals()[rule].items() if counts[folder] < count}
    assert lower == {}, f"lower {rule} in {__file__} to these"


@pytest.mark.parametrize(
    "text",
    [
        "Return the segments that retention removes.",
        "Decide which segments go.",
        "A broker deletes the directory after the delay.",
        "The lock goes when the descriptor is closed.",
        "``path`` is opened without following a symlink.",
        "If the disk is full, wait.",
    ],
)
def test_plain_sentences_pass(text: str) -> None:
    assert is_sentence(text)
    assert not is_fragment(text)


@pytest.mark.parametrize(
    "text",
    [
        "Of the entry point.",
        "What the rules look at of a batch.",
        "Which log dirs, for a command that asks no policy.",
        "Behind a round: how things are.",
        "Whether the index can be trusted.",
        "Those of a chunk that have a key.",
    ],
)
def test_fragments_are_caught(text: str) -> None:
    assert is_fragment(text)


@pytest.mark.parametrize(
    "text",
    [
        "The bytes of an offset checkpoint, entries in the given order.",
        "Bytes that the batch takes.",
        "One stream of 32 KiB blocks.",
        "The smallest offset, if it is known.",
    ],
)
def test_noun_phrases_are_no_sentences(text: str) -> None:
    assert not is_sentence(text)


def main(folder: str = "") -> None:
    for rule, breaks in RULES.items():
        offenders = [doc for doc in docstrings() if breaks(doc)]
        if folder:
            print(*(f"{doc.place}: {doc.text}" for doc in offenders if doc.folder == folder), sep="\n")
        print(f"{rule}: dict[str, int] = {{")
        print(
            *(f'    "{name}": {count},' for name, count in sorted(Counter(d.folder for d in offenders).items())),
            sep="\n",
        )
        print("}")


if __name__ == "__main__":
    main(*sys.argv[1:])
