"""The buffers that drafts are written to."""

from cleaner.engine.compaction.draft import Draft, Outputs

USUAL_BYTES = 10 << 20


def test_a_buffer_that_was_given_back_is_used_again():
    outputs = Outputs()
    first = outputs.take(100)
    outputs.give(first)
    assert outputs.take(USUAL_BYTES) is first
    assert outputs.take(100) is not first


def test_a_very_large_buffer_is_not_kept():
    outputs = Outputs()
    large = outputs.take(USUAL_BYTES + 1)
    assert large.size == USUAL_BYTES + 1
    outputs.give(large)
    assert outputs.take(USUAL_BYTES + 1) is not large


def test_a_draft_that_outgrows_its_buffer_keeps_what_is_in_it():
    draft = Draft(1, Outputs().take(3)[:3])
    draft.out[:] = (1, 2, 3)
    draft.position = 3
    draft.make_room(1)
    assert draft.out.size >= 4
    assert draft.out[:3].tolist() == [1, 2, 3]
