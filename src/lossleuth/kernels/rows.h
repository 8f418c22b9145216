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
constexpr int64_t PORTION = 1 << 13;  // about so many elements are one job of a thread

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
    const int64_t groups = std::max<int64_t>(1, PORTION / (width * together));
    const int64_t span = groups * together;
    share((rows + span - 1) / span, 1, threads, [&](int64_t i, int64_t worker) {
        job(i * span, std::min(rows, (i + 1) * span), worker);
    });
}

// In order, with the rounding errors added apart (Neumaier).
inline double sum_of(const double* losses, int64_t rows) {
    double sum = 0, lost = 0;
    for (int64_t i = 0; i < rows; i++) {
        const double next = sum + losses[i];
        const bool larger = std::fabs(sum) >= std::fabs(losses[i]);
        lost += larger ? (sum - next) + losses[i] : (losses[i] - next) + sum;
        sum = next;
    }
    return std::isfinite(lost) ? sum + lost : sum;
}

}  // namespace
