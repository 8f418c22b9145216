// Rows of few columns, one in each lane of a vector: such rows are too short to fill vectors of
// their own, and would spend most of their time on what is left over.

#pragma once

#include <cstdint>
#include <cstring>
#include <limits>

#include "exponentials.h"

namespace {

constexpr int64_t LANES = 16;
constexpr int64_t NARROW = 128;  // columns of rows that are dealt with in this way, at most

typedef float Eight __attribute__((vector_size(32)));

struct Lanes {
    alignas(64) float values[NARROW][LANES];  // a row is a column here
    alignas(64) float tops[LANES];
    alignas(64) float logits[LANES];  // of the targets
    alignas(64) float factors[LANES];
    alignas(64) double others[LANES];  // sums of powers without the target's
    alignas(64) double own[LANES];
    alignas(64) double totals[LANES];  // of the logits
    alignas(64) double logs[LANES];    // of all powers over the target's, or of their sum alone
    alignas(64) double losses[LANES];
    alignas(64) double gradients[LANES];  // of the targets' logits
    alignas(64) float targets[LANES];  // columns
};

INLINE float widened(float x) { return x; }
INLINE float widened(uint16_t x) { return from_brain(x); }
INLINE void narrowed(float x, float& to) { to = x; }
INLINE void narrowed(float x, uint16_t& to) { to = to_brain(x); }

#ifndef __has_builtin
#define __has_builtin(name) 0
#endif
#if __has_builtin(__builtin_shufflevector)
// Eight rows of eight numbers become eight columns.
INLINE void transpose(Eight (&x)[8]) {
    Eight pairs[8], fours[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i += 2) {
        pairs[i] = __builtin_shufflevector(x[i], x[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        pairs[i + 1] = __builtin_shufflevector(x[i], x[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        const Eight a = pairs[i / 4 * 4 + i % 4 / 2], b = pairs[i / 4 * 4 + i % 4 / 2 + 2];
        fours[i] = i % 2 ? __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
                         : __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 4; i++) {
        x[i] = __builtin_shufflevector(fours[i], fours[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        x[i + 4] = __builtin_shufflevector(fours[i], fours[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

// All columns if there are eight at least, else none; returns how many. The last eight may overlap
// those before: single numbers, written alone, would have to be waited for when lanes are read.
INLINE int64_t gather_eights(const float* const* rows, int64_t width, Lanes& lanes) {
    if (width < 8) return 0;
    for (int64_t next = 0; next < width; next += 8)
        for (int64_t l = 0; l < LANES; l += 8) {
            const int64_t v = next + 8 <= width ? next : width - 8;
            Eight x[8];
#pragma GCC unroll 8
            for (int i = 0; i < 8; i++) std::memcpy(&x[i], rows[l + i] + v, sizeof x[i]);
            transpose(x);
#pragma GCC unroll 8
            for (int i = 0; i < 8; i++) std::memcpy(&lanes.values[v + i][l], &x[i], sizeof x[i]);
        }
    return width;
}
INLINE int64_t scatter_eights(const Lanes& lanes, int64_t width, float offset, float* const* rows,
                              int64_t count) {
    if (count < LANES || width < 8) return 0;
    for (int64_t next = 0; next < width; next += 8)
        for (int64_t l = 0; l < LANES; l += 8) {
            const int64_t v = next + 8 <= width ? next : width - 8;
            Eight x[8], factors;
            std::memcpy(&factors, &lanes.factors[l], sizeof factors);
#pragma GCC unroll 8
            for (int i = 0; i < 8; i++) std::memcpy(&x[i], &lanes.values[v + i][l], sizeof x[i]);
#pragma GCC unroll 8
            for (int i = 0; i < 8; i++) x[i] = x[i] * factors - offset;
            transpose(x);
#pragma GCC unroll 8
            for (int i = 0; i < 8; i++) std::memcpy(rows[l + i] + v, &x[i], sizeof x[i]);
        }
    return width;
}
#else
INLINE int64_t gather_eights(const float* const*, int64_t, Lanes&) { return 0; }
INLINE int64_t scatter_eights(const Lanes&, int64_t, float, float* const*, int64_t) { return 0; }
#endif
INLINE int64_t gather_eights(const uint16_t* const*, int64_t, Lanes&) { return 0; }
INLINE int64_t scatter_eights(const Lanes&, int64_t, float, uint16_t* const*, int64_t) { return 0; }

template <class Element>
INLINE void gather_rows(const Element* const* rows, int64_t width, Lanes& lanes) {
    const int64_t done = gather_eights(rows, width, lanes);
    for (int64_t l = 0; l < LANES; l++)
        for (int64_t v = done; v < width; v++) lanes.values[v][l] = widened(rows[l][v]);
    for (int64_t l = 0; l < LANES; l++)
        lanes.logits[l] = widened(rows[l][static_cast<int64_t>(lanes.targets[l])]);
}

template <class Element>
INLINE void scatter_rows(const Lanes& lanes, int64_t width, float offset, Element* const* rows,
                         int64_t count) {
    const int64_t done = scatter_eights(lanes, width, offset, rows, count);
    for (int64_t l = 0; l < count; l++)
        for (int64_t v = done; v < width; v++)
            narrowed(lanes.values[v][l] * lanes.factors[l] - offset, rows[l][v]);
}

// The largest of each row; the lowest float where it has none.
INLINE void largest_of_lanes(Lanes& lanes, int64_t width) {
    float tops[LANES];
    for (int64_t l = 0; l < LANES; l++) tops[l] = std::numeric_limits<float>::lowest();
    for (int64_t v = 0; v < width; v++)
#pragma omp simd
        for (int64_t l = 0; l < LANES; l++)
            tops[l] = lanes.values[v][l] > tops[l] ? lanes.values[v][l] : tops[l];
    std::memcpy(lanes.tops, tops, sizeof tops);
}

// The power of a lane's number, relative to the top of its row.
template <bool SCALED, class Real>
INLINE Real power_of(float x, float top, Real inverse, Real bottom) {
    const Real above = static_cast<Real>(x) - static_cast<Real>(top);
    return exponential(SCALED ? above * inverse : above, bottom);
}

// Numbers become powers. The targets' are left out of the sums by comparison: a number that is
// written alone into what is read by lanes right afterwards would have to be waited for.
template <bool SCALED, class Real>
INLINE void raise(Lanes& lanes, int64_t width, Real inverse, Real bottom) {
    double sums[LANES] = {};
    for (int64_t v = 0; v < width; v++) {
        const Real column = static_cast<Real>(v);
#pragma omp simd
        for (int64_t l = 0; l < LANES; l++) {
            const Real power = power_of<SCALED>(lanes.values[v][l], lanes.tops[l], inverse, bottom);
            lanes.values[v][l] = static_cast<float>(power);
            const bool other = static_cast<Real>(lanes.targets[l]) != column;
            sums[l] += static_cast<double>(other ? power : Real(0));
        }
    }
    std::memcpy(lanes.others, sums, sizeof sums);
    for (int64_t l = 0; l < LANES; l++)
        lanes.own[l] = power_of<SCALED>(lanes.logits[l], lanes.tops[l], inverse, bottom);
}
template <class Real>
INLINE void powers_of_lanes(Lanes& lanes, int64_t width, double inverse, Real bottom) {
    largest_of_lanes(lanes, width);
    if (inverse == 1) raise<false>(lanes, width, Real(1), bottom);
    else raise<true>(lanes, width, static_cast<Real>(inverse), bottom);
}

// Whether the target has so much of the sum that their quotient is near 1.
INLINE bool is_sure(double others, double own) { return own > (others + own) / 4; }

LEVELLED void logs_across(Lanes& lanes) {
    for (int64_t l = 0; l < LANES; l++) {
        const double others = lanes.others[l], own = lanes.own[l], ratio = others / own;
        const bool sure = is_sure(others, own);
        const double u = sure ? 1 + ratio : others + own;
        const double lost = sure ? ratio - (u - 1) : 0.0;  // of 1 + ratio by rounding
        // Of a row that has no sum, of 0 or NaN, the quotient is NaN, and so is the loss.
        lanes.logs[l] = logarithm(u) + lost / u;
    }
}
LEVELLED void totals_across(Lanes& lanes, int64_t width) {
    for (int64_t l = 0; l < LANES; l++) lanes.totals[l] = 0;
    for (int64_t v = 0; v < width; v++)
        for (int64_t l = 0; l < LANES; l++)
            lanes.totals[l] += static_cast<double>(lanes.values[v][l]);
}
LEVELLED void gather(const float* const* rows, int64_t width, Lanes& lanes) {
    gather_rows(rows, width, lanes);
}
LEVELLED void gather(const uint16_t* const* rows, int64_t width, Lanes& lanes) {
    gather_rows(rows, width, lanes);
}
LEVELLED void powers_across(Lanes& lanes, int64_t width, double inverse, float bottom) {
    powers_of_lanes(lanes, width, inverse, bottom);
}
LEVELLED void powers_across(Lanes& lanes, int64_t width, double inverse, double bottom) {
    powers_of_lanes(lanes, width, inverse, bottom);
}
// Powers become a gradient: times each row's factor, less an offset.
LEVELLED void scatter(const Lanes& lanes, int64_t width, float offset, float* const* rows,
                      int64_t count) {
    scatter_rows(lanes, width, offset, rows, count);
}
LEVELLED void scatter(const Lanes& lanes, int64_t width, float offset, uint16_t* const* rows,
                      int64_t count) {
    scatter_rows(lanes, width, offset, rows, count);
}

}  // namespace
