"""New subjects are encoded for a checkpoint in slices, between which the node serves and others are added."""

import json
from types import SimpleNamespace

from delay_node.checkpoint import SLICE_NAMES, StateEncoder
from delay_node.store import Subjects


def test_new_names_are_encoded_a_limited_number_at_a_time() -> None:
    subjects = Subjects([f'"subject" {number}' for number in range(2 * SLICE_NAMES)])
    encoder = StateEncoder(SimpleNamespace(subjects=subjects, hours={}))  # type: ignore[arg-type]
    assert encoder.encode_names()
    assert json.loads(f"[{encoder._names.decode()}]") == subjects.names[:SLICE_NAMES]
    subjects.number("one more")
    subjects.placed += 1
    assert encoder.encode_names()
    assert not encoder.encode_names()
    assert json.loads(f"[{encoder._names.decode()}]") == subjects.names
