// Fingerprints and counts of token batches. `tokens.py` computes the same in numpy.

#include <cstdint>
#include <cstring>

#include "dispatch.h"

namespace {

template <class Token>
INLINE void fingerprint_of(const Token* x, int64_t rows, int64_t width, int64_t* out) {
    const int64_t n = rows * width;
    uint64_t hash = 0;
    Token largest = x[0], smallest = x[0];
#pragma omp simd reduction(+ : hash) reduction(max : largest) reduction(min : smallest)
    for (int64_t i = 0; i < n; i++) {
        hash += scattered(static_cast<uint64_t>(x[i]) + static_cast<uint64_t>(i + 1) * GOLDEN);
        largest = x[i] > largest ? x[i] : largest;
        smallest = x[i] < smallest ? x[i] : smallest;
    }
    int64_t breaks = width < 2;
    for (int64_t row = 0; row < rows && breaks == 0; row++) {
        const Token* start = x + row * width;
        for (int64_t i = 1; i < width; i++)
            breaks += static_cast<uint64_t>(start[i]) != static_cast<uint64_t>(start[i - 1]) + 1;
    }
    std::memcpy(out, &hash, sizeof hash);
    out[1] = largest;
    out[2] = smallest;
    out[3] = breaks == 0;
}
LEVELLED void fingerprint(const int32_t* x, int64_t rows, int64_t width, int64_t* out) {
    fingerprint_of(x, rows, width, out);
}
LEVELLED void fingerprint(const int64_t* x, int64_t rows, int64_t width, int64_t* out) {
    fingerprint_of(x, rows, width, out);
}

template <class Token> INLINE int64_t others_of(const Token* x, int64_t n, int64_t ignored) {
    int64_t others = 0;
    for (int64_t i = 0; i < n; i++) others += x[i] != ignored;
    return others;
}
LEVELLED int64_t others(const int32_t* x, int64_t n, int64_t ignored) {
    return others_of(x, n, ignored);
}
LEVELLED int64_t others(const int64_t* x, int64_t n, int64_t ignored) {
    return others_of(x, n, ignored);
}

}  // namespace

// Hash, largest, smallest, and whether each row counts up by one; of at least one token.
EXPORTED void lossleuth_fingerprint(const void* tokens, int64_t bytes, int64_t rows, int64_t width,
                                    int64_t* out) {
    if (bytes == 8) fingerprint(static_cast<const int64_t*>(tokens), rows, width, out);
    else fingerprint(static_cast<const int32_t*>(tokens), rows, width, out);
}

// How many of the tokens are not `ignored`.
EXPORTED int64_t lossleuth_others(const void* tokens, int64_t bytes, int64_t count,
                                  int64_t ignored) {
    if (bytes == 8) return others(static_cast<const int64_t*>(tokens), count, ignored);
    return others(static_cast<const int32_t*>(tokens), count, ignored);
}
