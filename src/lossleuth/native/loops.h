// The loops over elements, written plainly so that any compiler turns them into vector code.

#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "dispatch.h"
#include "formats.h"

namespace {

constexpr double MISSING = std::numeric_limits<double>::quiet_NaN();
constexpr double SMALLEST_EPSILON = 1e-30;  // so that 0 / 0 is a direction of 0, not NaN

struct GradientPart {
    double sum = 0, squares = 0, largest = 0, zeros = 0, nonfinite = 0;
};

struct UpdatePart {
    double weight_squares = 0, update_squares = 0, weight_nonfinite = 0;
    double wanted_squares = 0, swallowed_squares = 0;
    double first_squares = 0, second_sum = 0;
    double second_smallest = std::numeric_limits<double>::infinity();
    double second_under_epsilon = 0, seen_share = 1;
};

// A number's bits without its sign: 0 is zero, what is above `FINITE` is infinite or NaN, and the
// order is that of the absolute values, NaN on top.
template <class Real> struct Bits;
template <> struct Bits<float> {
    using Word = int32_t;
    static constexpr Word SIGNLESS = 0x7fffffff, FINITE = 0x7f7fffff;
};
template <> struct Bits<double> {
    using Word = int64_t;
    static constexpr Word SIGNLESS = 0x7fffffffffffffff, FINITE = 0x7fefffffffffffff;
};

template <class Real> INLINE typename Bits<Real>::Word magnitude(Real x) {
    typename Bits<Real>::Word word;
    std::memcpy(&word, &x, sizeof word);
    return word & Bits<Real>::SIGNLESS;
}

// The larger or smaller of two numbers; NaN if either is.
double larger(double a, double b) { return b > a || b != b ? b : a; }
double smaller(double a, double b) { return b < a || b != b ? b : a; }

// What is added to the root of the second moment.
template <class Real> INLINE Real epsilon_of(double threshold) {
    return static_cast<Real>(threshold > SMALLEST_EPSILON ? threshold : SMALLEST_EPSILON);
}

template <class Real> INLINE double zeros_in(const Real* x, int64_t n) {
    typename Bits<Real>::Word zeros = 0;
#pragma omp simd reduction(+ : zeros)
    for (int64_t i = 0; i < n; i++) zeros += magnitude(x[i]) == 0;
    return static_cast<double>(zeros);
}
template <class Real> INLINE double nonfinite_in(const Real* x, int64_t n) {
    typename Bits<Real>::Word nonfinite = 0;
#pragma omp simd reduction(+ : nonfinite)
    for (int64_t i = 0; i < n; i++) nonfinite += magnitude(x[i]) > Bits<Real>::FINITE;
    return static_cast<double>(nonfinite);
}

// What there is most often none of is counted only where there is some.
template <class Real> INLINE void add_gradient(const Real* x, int64_t n, GradientPart& part) {
    using Word = typename Bits<Real>::Word;
    double sum = 0, squares = 0;
    Word largest = 0, smallest = Bits<Real>::SIGNLESS;
#pragma omp simd reduction(+ : sum, squares) reduction(max : largest) reduction(min : smallest)
    for (int64_t i = 0; i < n; i++) {
        const double value = x[i];
        const Word size = magnitude(x[i]);
        sum += value;
        squares += value * value;
        largest = size > largest ? size : largest;
        smallest = size < smallest ? size : smallest;
    }
    Real bound;
    std::memcpy(&bound, &largest, sizeof bound);
    part.sum += sum;
    part.squares += squares;
    part.largest = larger(part.largest, bound);
    if (smallest == 0) part.zeros += zeros_in(x, n);
    if (largest > Bits<Real>::FINITE) part.nonfinite += nonfinite_in(x, n);
}

// Returns how many elements did not change.
template <class Real>
INLINE int64_t add_update(const Real* p, const Real* before, int64_t n, UpdatePart& part) {
    using Word = typename Bits<Real>::Word;
    double weights = 0, updates = 0;
    Word unchanged = 0;
#pragma omp simd reduction(+ : weights, updates, unchanged)
    for (int64_t i = 0; i < n; i++) {
        const double now = p[i];
        const double change = now - static_cast<double>(before[i]);
        weights += now * now;
        updates += change * change;
        unchanged += p[i] == before[i];
    }
    part.weight_squares += weights;
    part.update_squares += updates;
    if (weights - weights != 0) part.weight_nonfinite += nonfinite_in(p, n);
    return unchanged;
}

template <class Real> INLINE double squares_of(const Real* x, int64_t n) {
    double squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < n; i++) {
        const double value = x[i];
        squares += value * value;
    }
    return squares;
}

// x is what is divided by the second moment's root: the first moment, or the gradient.
template <class Real>
INLINE void add_moments(const Real* x, const Real* v, int64_t n, double threshold,
                        UpdatePart& part) {
    using Word = typename Bits<Real>::Word;
    const Real limit = static_cast<Real>(threshold);
    const Real epsilon = epsilon_of<Real>(threshold);
    double wanted = 0, first = 0, second = 0;
    Real smallest = std::numeric_limits<Real>::infinity();
    Word under = 0;
#pragma omp simd reduction(+ : wanted, first, second, under) reduction(min : smallest)
    for (int64_t i = 0; i < n; i++) {
        const Real root = std::sqrt(v[i]);
        const double direction = x[i] / (root + epsilon);
        const double value = x[i];
        wanted += direction * direction;
        first += value * value;
        second += static_cast<double>(v[i]);
        smallest = v[i] < smallest ? v[i] : smallest;
        under += root < limit;
    }
    part.wanted_squares += wanted;
    part.first_squares += first;
    part.second_sum += second;
    part.second_smallest = smaller(part.second_smallest, second != second ? MISSING : smallest);
    part.second_under_epsilon += static_cast<double>(under);
}

template <class Real>
INLINE double swallowed_directly(const Real* p, const Real* before, const Real* x, int64_t n) {
    double swallowed = 0;
#pragma omp simd reduction(+ : swallowed)
    for (int64_t i = 0; i < n; i++) {
        const double direction = x[i];
        swallowed += p[i] == before[i] ? direction * direction : 0.0;
    }
    return swallowed;
}

template <class Real>
INLINE double swallowed_of_ratio(const Real* p, const Real* before, const Real* x, const Real* v,
                                 int64_t n, double threshold) {
    const Real epsilon = epsilon_of<Real>(threshold);
    double swallowed = 0;
#pragma omp simd reduction(+ : swallowed)
    for (int64_t i = 0; i < n; i++) {
        const double direction = x[i] / (std::sqrt(v[i]) + epsilon);
        swallowed += p[i] == before[i] ? direction * direction : 0.0;
    }
    return swallowed;
}

// The functions that are compiled once per level of the processor.
LEVELLED void widen(const char* from, int64_t type, int64_t n, float* to) {
    const uint16_t* halves = reinterpret_cast<const uint16_t*>(from);
    if (type == BFLOAT16)
        for (int64_t i = 0; i < n; i++) to[i] = from_brain(halves[i]);
    else
        for (int64_t i = 0; i < n; i++) to[i] = from_half(halves[i]);
}
LEVELLED void widen(const char* from, int64_t type, int64_t n, double* to) {
    const uint16_t* halves = reinterpret_cast<const uint16_t*>(from);
    const float* singles = reinterpret_cast<const float*>(from);
    if (type == FLOAT32)
        for (int64_t i = 0; i < n; i++) to[i] = singles[i];
    else if (type == BFLOAT16)
        for (int64_t i = 0; i < n; i++) to[i] = from_brain(halves[i]);
    else
        for (int64_t i = 0; i < n; i++) to[i] = from_half(halves[i]);
}
LEVELLED void gradient(const float* x, int64_t n, GradientPart& part) {
    add_gradient(x, n, part);
}
LEVELLED void gradient(const double* x, int64_t n, GradientPart& part) {
    add_gradient(x, n, part);
}
LEVELLED int64_t update(const float* p, const float* before, int64_t n, UpdatePart& part) {
    return add_update(p, before, n, part);
}
LEVELLED int64_t update(const double* p, const double* before, int64_t n, UpdatePart& part) {
    return add_update(p, before, n, part);
}
LEVELLED double squares(const float* x, int64_t n) { return squares_of(x, n); }
LEVELLED double squares(const double* x, int64_t n) { return squares_of(x, n); }
LEVELLED void moments(const float* x, const float* v, int64_t n, double threshold,
                      UpdatePart& part) {
    add_moments(x, v, n, threshold, part);
}
LEVELLED void moments(const double* x, const double* v, int64_t n, double threshold,
                      UpdatePart& part) {
    add_moments(x, v, n, threshold, part);
}
LEVELLED double swallowed(const float* p, const float* before, const float* x, const float* v,
                          int64_t n, double threshold) {
    return v ? swallowed_of_ratio(p, before, x, v, n, threshold)
             : swallowed_directly(p, before, x, n);
}
LEVELLED double swallowed(const double* p, const double* before, const double* x, const double* v,
                          int64_t n, double threshold) {
    return v ? swallowed_of_ratio(p, before, x, v, n, threshold)
             : swallowed_directly(p, before, x, n);
}

}  // namespace
