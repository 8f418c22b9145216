"""Every layout, and the faults that can be planted in each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import built_layouts as built
import loss_layouts as plain
from loss_layouts import LENGTH, ROWS, Net, Options
from torch import Tensor

Layout = Callable[[Net, Options], Tensor]

PADDED: tuple[Layout, ...] = (
    *(plain.mask_multiplied, plain.gathered, plain.chosen_rows, plain.chosen_features),
    *(plain.ignored_label, plain.chosen_features_time_first),
    *(built.packed_lstm, built.packed_targets, built.fused),
)
LAYOUTS: tuple[Layout, ...] = (
    *(plain.channel_first, plain.transposed_for_the_loss, plain.time_first),
    *(plain.logits_time_first, plain.one_text, plain.flat_tokens),
    *(plain.one_hot_product, plain.softmax_by_hand, plain.picked_minus_logsumexp),
    *(plain.smoothed, plain.chunked, plain.binary, plain.two_heads),
    *(plain.left_out_after_softmax, plain.left_out_in_turns, plain.left_out_in_late_turns),
    *(plain.of_a_class_of_words, plain.loop_stacked, plain.loop_of_losses, plain.segments),
    *(plain.packed, plain.prefix_language_model, plain.one_hot_inputs, plain.with_token_types),
    *(built.encoder_decoder, built.gru_time_first, built.gru_batch_first, built.packed_throughout),
    *(built.last_position_only, built.text_classifier, built.masked_language_model),
    *PADDED,
)
SINGLE: tuple[Layout, ...] = (plain.one_text, plain.flat_tokens)
# Whose targets are not the next tokens, and whose positions are meant to see all others.
NO_NEXT: tuple[Layout, ...] = (built.text_classifier, built.masked_language_model)
# Whose predictions have no later tokens to see, or may see them.
NO_FUTURE: tuple[Layout, ...] = (*NO_NEXT, built.last_position_only)
# Whose loss is written without a way to leave a target out.
NO_MASK: tuple[Layout, ...] = (
    *(plain.one_hot_product, plain.softmax_by_hand, plain.picked_minus_logsumexp, plain.binary),
    *(plain.left_out_after_softmax, plain.left_out_in_turns, plain.of_a_class_of_words),
)
# Rows of padding after texts of 7, 6, 5 and 4 tokens, whose last target is padding too.
TEXT = 6 + 5 + 4 + 3
# Positions without a target, in each text.
_UNASKED = {
    "packed": 2,
    "prefix_language_model": LENGTH // 2 - 1,
    "left_out_after_softmax": 1,
    "left_out_in_late_turns": 2,
}


def targets_asked(layout: Layout) -> int:
    """How many targets count in a sound layout."""
    if layout in (*PADDED, built.packed_throughout):
        return TEXT
    if layout in SINGLE:
        return LENGTH
    if layout in (built.last_position_only, built.text_classifier):
        return built.MANY
    if layout is built.masked_language_model:
        return built.MANY * LENGTH // 3
    return ROWS * (LENGTH - _UNASKED.get(layout.__name__, 0))


@dataclass(frozen=True)
class Fault:
    """What is planted, the cause that is right, and the layouts where it can be planted."""

    options: Options
    cause: str | None
    layouts: tuple[Layout, ...] = LAYOUTS


def without(*others: Layout) -> tuple[Layout, ...]:
    """All layouts but these."""
    return tuple(layout for layout in LAYOUTS if layout not in others)


FAULTS = {
    "sound": Fault(Options(), None),
    "offset 0": Fault(Options(offset=0), "label_offset", without(*NO_NEXT)),
    "offset 2": Fault(Options(offset=2), "label_offset", without(*NO_NEXT)),
    "sees future": Fault(Options(sees_future=True), "future_leak", without(*NO_FUTURE)),
    "mixes texts": Fault(Options(mixes_rows=True), "batch_leak", without(*SINGLE)),
    "ignores input": Fault(Options(ignores_input=True), "input_ignored"),
    "pads count": Fault(Options(pads_count=True), "pad_in_loss", PADDED),
    "masks labels": Fault(Options(masks_labels=True), "labels_all_masked", without(*NO_MASK)),
}
