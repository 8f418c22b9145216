// What the loss kernels share: how rows lie in memory, which of them count, how they are handed out
// to threads, and how their losses are added.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "exponentials.h"
#include "threads.h"

namespace {

constexpr int64_t BLOCK = 2048;       // elements of a row that are looked at in one go, from cache
constexpr int64_t PORTION = 1 << 16;  // so many elements are one job of a thread, at most
constexpr int64_t JOBS = 16;          // of each thread, at least, so that none waits long for another

// Rows of a tensor: `inner` of them lie `stride` elements apart, and groups of them `outer_stride`.
struct Layout {
    char* base;  // null where nothing is wanted
    int64_t inner;
    int64_t stride;
    int64_t outer_stride;

    template <class Element> Element* row(int64_t i) const {
        Element* start = reinterpret_cast<Element*>(base);
        if (i < inner) return start + i * stride;  // divisions take long
        return start + i / inner * outer_stride + i % inner * stride;
    }
};

// Elements as float: where they lie if they are that already, else widened into `scratch`.
inline const float* read(const float* x, int64_t, float*) { return x; }
inline const float* read(const uint16_t* x, int64_t n, float* scratch) {
    widen(x, scratch, n);
    return scratch;
}

inline float element(const float* x, int64_t i) { return x[i]; }
inline float element(const uint16_t* x, int64_t i) { return from_brain(x[i]); }
inline void set(float* x, int64_t i, double value) { x[i] = static_cast<float>(value); }
inline void set(uint16_t* x, int64_t i, double value) { x[i] = to_brain(static_cast<float>(value)); }

// Calls `job(first, last, worker)` for spans of rows, whose bounds are multiples of `together`.
template <class Job>
void share_rows(int64_t rows, int64_t width, int64_t together, int64_t threads, const Job& job) {
    const int64_t most = PORTION / (width * together);
    const int64_t fair = rows / (together * JOBS * std::max<int64_t>(threads, 1));
    const int64_t span = std::max<int64_t>(1, std::min(most, fair)) * together;
    share((rows + span - 1) / span, 1, threads, [&](int64_t i, int64_t worker) {
        job(i * span, std::min(rows, (i + 1) * span), worker);
    });
}

// Sums of every eighth loss in order, and then their sum, with the rounding errors added apart
// (Neumaier). Eight, since in one sum each addition would wait for the last.
constexpr int64_t WAYS = 8;
INLINE void add_apart(const double* x, double* sums, double* lost, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const double next = sums[i] + x[i];
        const bool larger = std::fabs(sums[i]) >= std::fabs(x[i]);
        lost[i] += larger ? (sums[i] - next) + x[i] : (x[i] - next) + sums[i];
        sums[i] = next;
    }
}
LEVELLED double sum_of(const double* losses, int64_t rows) {
    double sums[WAYS] = {}, lost[WAYS] = {};
    int64_t done = 0;
    for (; done + WAYS <= rows; done += WAYS) add_apart(losses + done, sums, lost, WAYS);
    add_apart(losses + done, sums, lost, rows - done);
    for (int64_t way = 1; way < WAYS; way++) {
        add_apart(sums + way, sums, lost, 1);
        lost[0] += lost[way];
    }
    return std::isfinite(lost[0]) ? sums[0] + lost[0] : sums[0];
}

}  // namespace
