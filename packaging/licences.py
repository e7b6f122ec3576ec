"""Writes Debian's copyright file for a package with a virtualenv in it: our licence, and that of each package in there.

``licences.py LICENSE SITE_PACKAGES``; the standard library alone, since it runs on the Python of the virtualenv. It
fails if a package tells no licence, or carries no text of it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path

OURS = "logcleaner"
COMMON = (
    ("Apache-2.0", r"Apache License\s+Version 2\.0, January 2004", r"limitations under the License\."),
    ("GPL-3", r"GNU GENERAL PUBLIC LICENSE\s+Version 3, 29 June 2007", r"why-not-lgpl\.html>\."),
    ("LGPL-2.1", r"GNU LESSER GENERAL PUBLIC LICENSE\s+Version 2\.1, February 1999", r"That's all there is to it!"),
)
"""Texts in /usr/share/common-licenses: the name of the file, how the text begins, how its appendix ends."""
ENDS = r"END OF TERMS AND CONDITIONS"
TEXT_NAME = re.compile(r"(LICEN[CS]E|COPYING|NOTICE|dragon4_LICENSE)", re.IGNORECASE)
HEAD = """\
logcleaner is licensed under the Apache License, Version 2.0. Its text is
/usr/share/common-licenses/Apache-2.0.

Copyright: the authors of logcleaner

/opt/logcleaner also holds the Python packages that logcleaner needs, as their
authors published them. Here are their licences, from their own metadata.
"""


def shortened(text: str) -> str:
    """Return a text with a pointer in place of each licence that every Debian has."""
    for name, begin, appendix_end in COMMON:
        whole = re.compile(rf"[ \t]*{begin}.*?{ENDS}(?:(?:(?!{begin}).)*?{appendix_end})?", re.DOTALL)
        text = whole.sub(f"(The text of this licence is /usr/share/common-licenses/{name}.)", text)
    return text


def stated(distribution: Distribution) -> str:
    """Return the licence that a package's metadata names.

    Raises: SystemExit: it names none.
    """
    metadata = distribution.metadata
    classified = [value.rpartition(" :: ")[2] for value in metadata.get_all("Classifier", []) if "License ::" in value]
    said = metadata.get("License-Expression") or metadata.get("License") or " and ".join(classified)
    if not said:
        sys.exit(f"{distribution.name} {distribution.version} tells no licence; write it down before it is shipped")
    return str(said).partition("\n")[0]


def texts(distribution: Distribution) -> Iterator[str]:
    """Yield the texts of licences that a package carries in its metadata, each once."""
    found = set()
    for file in distribution.files or []:
        path = Path(str(distribution.locate_file(file)))
        if ".dist-info" in str(file) and TEXT_NAME.match(path.name) and (text := path.read_text("utf-8")) not in found:
            found.add(text)
            yield text
    if not found:
        sys.exit(f"{distribution.name} {distribution.version} carries no text of its licence; it cannot be shipped so")


def compiled_in(distribution: Distribution) -> list[str]:
    """Return what the package was built from besides, with licences, if it carries a bill of materials."""
    files = [distribution.locate_file(file) for file in distribution.files or [] if "/sboms/" in str(file)]
    parts = [part for file in files for part in json.loads(Path(str(file)).read_text("utf-8")).get("components", [])]
    return sorted({f"{part['name']} {part.get('version', '')} ({_licence_of(part)})" for part in parts})


def _licence_of(part: dict[str, object]) -> str:
    said = part.get("licenses")
    found = [] if not isinstance(said, list) else [
        entry.get("expression") or entry.get("license", {}).get("id") or entry.get("license", {}).get("name")
        for entry in said
    ]  # fmt: skip
    return " AND ".join(map(str, found)) or "no licence stated"


def chapter(distribution: Distribution) -> str:
    """Return the part of the copyright file about one package."""
    metadata = distribution.metadata
    heading = f"{distribution.name} {distribution.version}"
    authors = ", ".join(filter(None, (metadata.get("Author"), metadata.get("Author-email"))))
    lines = ["", "=" * 78, heading, f"Licence: {stated(distribution)}", *([f"Authors: {authors}"] if authors else [])]
    if parts := compiled_in(distribution):
        lines += ["Compiled into it:", *(f"  {part}" for part in parts)]
    return "\n".join([*lines, "=" * 78, "", *(shortened(text).strip("\n") + "\n" for text in texts(distribution))])


def copyright_file(licence: str, site_packages: Path) -> str:
    """Return the whole file."""
    if "Apache License" not in licence:
        sys.exit("LICENSE is not the Apache License any more: mend packaging/licences.py")
    found = {found.name: found for found in distributions(path=[str(site_packages)]) if found.name != OURS}
    chapters = [chapter(found[name]) for name in sorted(found, key=str.lower)]
    return "\n".join([HEAD, *chapters])


if __name__ == "__main__":
    sys.stdout.write(copyright_file(Path(sys.argv[1]).read_text("utf-8"), Path(sys.argv[2])))
