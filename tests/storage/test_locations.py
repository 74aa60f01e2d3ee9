"""Locations of stores: URLs, paths, and what is refused."""

from pathlib import Path

import pytest

from primo_scale.errors import UsageError
from primo_scale.storage.locations import ObjectUrl, parse_location


@pytest.mark.parametrize("text", ["a.zarr", "/data/a b", "s3", "s3:/x", "./s3:x", "C:stuff"])
def test_text_without_a_scheme_is_a_path(text):
    assert parse_location(text) == Path(text)
    assert parse_location(Path(text)) == Path(text)


@pytest.mark.parametrize("scheme", ["s3", "gs", "az"])
def test_a_url_is_parsed_into_bucket_and_key(scheme):
    found = parse_location(f"{scheme}://my-bucket.x/cohort/geno=1/a_b.zarr/")
    assert found == ObjectUrl(scheme, "my-bucket.x", "cohort/geno=1/a_b.zarr")
    assert str(found) == f"{scheme}://my-bucket.x/cohort/geno=1/a_b.zarr"
    assert parse_location(str(found)) == parse_location(found) == found == found.resolve()
    assert found.name == "a_b.zarr"
    assert parse_location(str(found / "gram/0/c/1")) == found / "gram" / "0" / "c" / "1"


@pytest.mark.parametrize(
    "text",
    [
        "http://host/x", "file:///x", "ftp://x/y", "s3://", "s3://bucket", "s3://bucket/",
        "s3:///x", "s3://bucket//x", "s3://bucket/a/../b", "s3://bucket/./b", "s3://bucket/a b",
        "s3://bucket/%2e", "s3://bück/x", "s3://bucket/...", "s3://bucket/a\\b",
        "s3://key:hunter2@bucket/x", "s3://bucket/x?X-Amz-Signature=hunter2", "s3://bucket/x#hunter2",
    ],
)  # fmt: skip
def test_other_urls_are_refused_and_their_credentials_not_repeated(text):
    with pytest.raises(UsageError) as refusal:
        parse_location(text)
    assert "hunter2" not in str(refusal.value)
