"""The signature of a release, made by the library alone: a valid one passes, a change is found."""

import copy
import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import assume, given
from hypothesis import strategies as st
from support.documents import places, value_at

from primo_scale.ledger.ledger import Ledger
from primo_scale.verify.files import Signer, signature_of, signature_problem, signed_content

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32))
CHANGED = "it was changed after it was signed"
RELEASE = {
    "schema": "primo_scale release 2",
    "private": True,
    "guarantee": {"epsilon": 5.0, "delta": 1e-08, "mu": 0.8779525, "adjacency": "replace-one"},
    "mechanism": {"queries": [{"name": "gram", "sigma": 123456.75, "fine_bits": 24}]},
    "cohort": {"n_samples": 500, "block_sizes": [30, 12], "phenotypes": ["ldl", "höhe"]},
    "files": [{"name": "weights.tsv.gz", "sha256": "ab" * 32, "bytes": 1234}],
    "unprotected": [],
    "comment": None,
}


def public(key):
    return key.public_key().public_bytes_raw().hex()


def signed(document, key=KEY):
    """Return a document with a signature over an independent serialisation of the rest."""
    rest = {name: value for name, value in document.items() if name != "signature"}
    content = json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()
    value = key.sign(content).hex()
    signature = {"algorithm": "Ed25519", "public_key": public(key), "value": value}
    return {**document, "signature": signature}


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
DOCUMENTS = st.dictionaries(st.text().filter(lambda name: name != "signature"), VALUES, max_size=6)


def as_written(value):
    """Return JSON, which differs for 1, 1.0 and True; Python compares them as equal."""
    return json.dumps(value, sort_keys=True)


@given(document=DOCUMENTS)
def test_what_was_signed_passes_also_after_a_file(document):
    for form in (signed(document), json.loads(json.dumps(signed(document), indent=1))):
        assert signature_problem(form, None) is None
        assert signature_problem(form, public(KEY)) is None
        assert signature_problem(dict(reversed(form.items())), f" {public(KEY).upper()}\n") is None


@given(document=DOCUMENTS, value=VALUES, data=st.data())
def test_any_changed_value_is_found(document, value, data):
    assume(document)
    changed = copy.deepcopy(signed(document))
    path = data.draw(st.sampled_from([p for p in places(changed) if p[0] != "signature"]))
    inner = value_at(changed, path[:-1])
    assume(as_written(inner[path[-1]]) != as_written(value))
    inner[path[-1]] = value
    assert signature_problem(changed, None) == CHANGED
    assert signature_problem(changed, public(KEY)) == CHANGED


@given(DOCUMENTS, st.sampled_from(["value", "public_key"]), st.integers(0, 511))
def test_any_changed_bit_of_the_signature_or_of_the_key_is_found(document, member, position):
    changed = signed(document)
    flipped = bytearray.fromhex(changed["signature"][member])
    flipped[position // 8 % len(flipped)] ^= 1 << position % 8
    changed["signature"][member] = flipped.hex()
    assert signature_problem(changed, None) is not None
    expected = CHANGED if member == "value" else "signed with another key"
    assert expected in signature_problem(changed, public(KEY))


def test_another_key_is_found_only_where_the_right_one_is_known():
    forged = signed({**RELEASE, "comment": "forged"}, OTHER)
    assert signature_problem(forged, None) is None
    assert signature_problem(forged, public(KEY)) == (
        f"it is signed with another key, {public(OTHER)}"
    )
    # Somebody else's signature under the right name.
    forged["signature"]["public_key"] = public(KEY)
    assert signature_problem(forged, public(KEY)) == CHANGED


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_json_does_not_have_are_not_signed(number):
    with pytest.raises(ValueError, match="JSON compliant"):
        signed_content({"comment": number})


def test_the_ledger_signs_what_is_checked(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        member = signature_of(RELEASE, Signer(ledger.public_key, ledger.sign))
        key = ledger.public_key
    assert signature_problem({**RELEASE, "signature": member}, key) is None
    assert signature_problem({**RELEASE, "private": 1, "signature": member}, key) == CHANGED


def test_the_content_does_not_depend_on_an_earlier_signature():
    assert signed_content(signed(RELEASE)) == signed_content(RELEASE)
    again = signature_of(signed(RELEASE, OTHER), Signer(public(KEY), KEY.sign))
    assert again == signed(RELEASE)["signature"]
