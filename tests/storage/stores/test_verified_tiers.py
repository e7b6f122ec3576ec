"""``verify --tier`` over a real server of S3: eight kinds of damage in five forms, and fifty tiers without any."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key

from cleaner.cli.exit_status import ExitStatus
from storage.stores import opening
from tests.sampled import one_of_each, some
from tests.storage.stores.servers import OF_S3, SCHEME, configuration, upload, writer
from tests.tiers.test_verify import DAMAGES, FORMS, Drawn, four_segments, named, random_segments

pytestmark = OF_S3

CASES = [(damage, form) for damage in DAMAGES for form in FORMS]
SEEDS = range(50)


@pytest.fixture(scope="module")
def key() -> RSAPrivateKey:
    return generate_private_key(65537, 2048)


class InBucket(Drawn):
    """A tier that is drawn on this machine, and checked in a bucket."""

    def sent(self, server: str, bucket: str) -> InBucket:
        """Send what lies there now."""
        opening.configure(SCHEME, configuration(server))
        upload(self.root / "tier", writer(server, bucket), "some/prefix")
        object.__setattr__(self, "url", f"{SCHEME}://{bucket}/some/prefix")
        return self

    @property
    def place(self) -> str:
        url: str = self.url  # type: ignore[attr-defined]
        return url


@pytest.mark.parametrize(
    ("damage", "form"),
    one_of_each(CASES, lambda case: case[0]),
    ids=lambda one: one if isinstance(one, str) else one.__name__,
)
def test_damage_is_named_alone(damage, form, tmp_path: Path, key, server, capsys) -> None:
    drawn = InBucket(tmp_path, form, key)
    drawn.write(four_segments(), named(four_segments()))
    damage(drawn)
    status, document = drawn.sent(server, f"{damage.__name__}-{form}".replace("_", "-")).verify(capsys)
    codes, harm = DAMAGES[damage]
    assert status == ExitStatus.DAMAGED
    (finding,) = document["findings"]
    assert finding["code"] in codes
    assert finding["harm"] == harm or not harm
    assert finding["path"].startswith(drawn.place)


@pytest.mark.parametrize("seed", some(SEEDS, 5, always=()))
def test_healthy_tier_raises_no_alarm(seed: int, tmp_path: Path, key, server, capsys) -> None:
    segments = random_segments(random.Random(seed))
    drawn = InBucket(tmp_path, FORMS[seed % len(FORMS)], key)
    drawn.write(segments, named(segments))
    status, document = drawn.sent(server, f"healthy-{seed}").verify(capsys, "--deep")
    assert (status, document["findings"], document["problems"]) == (ExitStatus.DONE, [], [])
    assert document["totals"]["segments"] == len(segments)
