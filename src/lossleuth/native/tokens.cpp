// Fingerprints and counts of token batches. `tokens.py` computes the same in numpy.

#include <cstdint>
#include <cstring>

#include "dispatch.h"

namespace {

// A batch: rows of `width` tokens, `stride` apart.
struct Batch {
    int64_t rows, width, stride;
};

template <class Token> INLINE void fingerprint_of(const Token* x, Batch batch, int64_t* out) {
    uint64_t hash = 0;
    Token largest = x[0], smallest = x[0];
    // Rows without gaps are one long row.
    const bool whole = batch.stride == batch.width;
    const int64_t spans = whole ? 1 : batch.rows;
    const int64_t length = whole ? batch.rows * batch.width : batch.width;
    for (int64_t span = 0; span < spans; span++) {
        const Token* start = x + span * batch.stride;
        const uint64_t first = static_cast<uint64_t>(span * length) + 1;
#pragma omp simd reduction(+ : hash) reduction(max : largest) reduction(min : smallest)
        for (int64_t i = 0; i < length; i++) {
            const uint64_t place = (first + static_cast<uint64_t>(i)) * GOLDEN;
            hash += scattered(static_cast<uint64_t>(start[i]) + place);
            largest = start[i] > largest ? start[i] : largest;
            smallest = start[i] < smallest ? start[i] : smallest;
        }
    }
    int64_t breaks = batch.width < 2;
    for (int64_t row = 0; row < batch.rows && breaks == 0; row++) {
        const Token* start = x + row * batch.stride;
        for (int64_t i = 1; i < batch.width; i++)
            breaks += static_cast<uint64_t>(start[i]) != static_cast<uint64_t>(start[i - 1]) + 1;
    }
    std::memcpy(out, &hash, sizeof hash);
    out[1] = largest;
    out[2] = smallest;
    out[3] = breaks == 0;
}
LEVELLED void fingerprint(const int32_t* x, Batch batch, int64_t* out) {
    fingerprint_of(x, batch, out);
}
LEVELLED void fingerprint(const int64_t* x, Batch batch, int64_t* out) {
    fingerprint_of(x, batch, out);
}

template <class Token> INLINE int64_t others_of(const Token* x, Batch batch, int64_t ignored) {
    int64_t others = 0;
    for (int64_t row = 0; row < batch.rows; row++, x += batch.stride)
        for (int64_t i = 0; i < batch.width; i++) others += x[i] != ignored;
    return others;
}
LEVELLED int64_t others(const int32_t* x, Batch batch, int64_t ignored) {
    return others_of(x, batch, ignored);
}
LEVELLED int64_t others(const int64_t* x, Batch batch, int64_t ignored) {
    return others_of(x, batch, ignored);
}

}  // namespace

// Hash, largest, smallest, and whether each row counts up by one; of at least one token.
EXPORTED void lossleuth_fingerprint(const void* tokens, int64_t bytes, int64_t rows, int64_t width,
                                    int64_t stride, int64_t* out) {
    const Batch batch{rows, width, stride};
    if (bytes == 8) fingerprint(static_cast<const int64_t*>(tokens), batch, out);
    else fingerprint(static_cast<const int32_t*>(tokens), batch, out);
}

// How many of the tokens are not `ignored`.
EXPORTED int64_t lossleuth_others(const void* tokens, int64_t bytes, int64_t rows, int64_t width,
                                  int64_t stride, int64_t ignored) {
    const Batch batch{rows, width, stride};
    if (bytes == 8) return others(static_cast<const int64_t*>(tokens), batch, ignored);
    return others(static_cast<const int32_t*>(tokens), batch, ignored);
}
