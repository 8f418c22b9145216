// Rows of few columns, one in each lane of a vector: such rows are too short to fill vectors of
// their own, and would spend most of their time on what is left over.

#pragma once

#include <cstdint>
#include <limits>

#include "exponentials.h"

namespace {

constexpr int64_t LANES = 16;
constexpr int64_t NARROW = 128;  // columns of rows that are dealt with in this way, at most

struct Lanes {
    alignas(64) float values[NARROW][LANES];  // a row is a column here
    alignas(64) float tops[LANES];
    alignas(64) float logits[LANES];  // of the targets
    alignas(64) float factors[LANES];
    alignas(64) double others[LANES];  // sums of powers without the target's
    alignas(64) double own[LANES];
    alignas(64) double totals[LANES];  // of the logits
    alignas(64) int32_t targets[LANES];
};

INLINE float widened(float x) { return x; }
INLINE float widened(uint16_t x) { return from_brain(x); }
INLINE void narrowed(float x, float& to) { to = x; }
INLINE void narrowed(float x, uint16_t& to) { to = to_brain(x); }

template <class Element>
INLINE void gather_rows(const Element* const* rows, int64_t width, Lanes& lanes) {
    for (int64_t l = 0; l < LANES; l++) {
        const Element* row = rows[l];
        for (int64_t v = 0; v < width; v++) lanes.values[v][l] = widened(row[v]);
    }
}

template <class Element>
INLINE void scatter_rows(const Lanes& lanes, int64_t width, float offset, Element* const* rows,
                         int64_t count) {
    for (int64_t l = 0; l < count; l++) {
        Element* row = rows[l];
        const float factor = lanes.factors[l];
        for (int64_t v = 0; v < width; v++)
            narrowed(lanes.values[v][l] * factor - offset, row[v]);
    }
}

// The targets' values are taken out, so that their powers are 0 in the sum.
template <class Real>
INLINE void powers_of_lanes(Lanes& lanes, int64_t width, double inverse_temperature) {
    const Real inverse = static_cast<Real>(inverse_temperature);
    float tops[LANES];
    double sums[LANES] = {}, totals[LANES] = {};
    for (int64_t l = 0; l < LANES; l++) tops[l] = std::numeric_limits<float>::lowest();
    for (int64_t v = 0; v < width; v++)
        for (int64_t l = 0; l < LANES; l++) {
            const float value = lanes.values[v][l];
            tops[l] = value > tops[l] ? value : tops[l];
            totals[l] += static_cast<double>(value);
        }
    for (int64_t l = 0; l < LANES; l++) {
        float& value = lanes.values[lanes.targets[l]][l];
        lanes.logits[l] = value;
        value = -std::numeric_limits<float>::infinity();
    }
    for (int64_t v = 0; v < width; v++)
        for (int64_t l = 0; l < LANES; l++) {
            const Real above = static_cast<Real>(lanes.values[v][l]) - static_cast<Real>(tops[l]);
            const Real power = exponential(above * inverse);
            lanes.values[v][l] = static_cast<float>(power);
            sums[l] += static_cast<double>(power);
        }
    for (int64_t l = 0; l < LANES; l++) {
        const Real above = static_cast<Real>(lanes.logits[l]) - static_cast<Real>(tops[l]);
        lanes.own[l] = static_cast<double>(exponential(above * inverse));
        lanes.others[l] = sums[l];
        lanes.tops[l] = tops[l];
        lanes.totals[l] = totals[l];
    }
}

LEVELLED void gather(const float* const* rows, int64_t width, Lanes& lanes) {
    gather_rows(rows, width, lanes);
}
LEVELLED void gather(const uint16_t* const* rows, int64_t width, Lanes& lanes) {
    gather_rows(rows, width, lanes);
}
LEVELLED void powers_across(Lanes& lanes, int64_t width, double inverse, float) {
    powers_of_lanes<float>(lanes, width, inverse);
}
LEVELLED void powers_across(Lanes& lanes, int64_t width, double inverse, double) {
    powers_of_lanes<double>(lanes, width, inverse);
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
