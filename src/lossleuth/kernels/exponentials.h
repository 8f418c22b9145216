// The loops of the loss kernels over one row's elements, written plainly so that any compiler turns
// them into vector code.

#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "dispatch.h"
#include "formats.h"

namespace {

// e^x is 2^n e^r with |r| <= ln 2 / 2. Adding ROUNDER leaves n plus the exponent's bias in the last
// bits of a number's word, from where they are shifted into the exponent. Of LN2 the HIGH part is
// short, so that n times it is exact. Below BOTTOM the exponent's bits are all 0, and so is the power.
template <class Real> struct Split;
template <> struct Split<float> {
    using Word = uint32_t;
    static constexpr float ROUNDER = 0x1.8p23f + 127, LOG2_E = 0x1.715476p+0f;
    static constexpr float HIGH = 0x1.63p-1f, LOW = -0x1.bd0106p-13f, BOTTOM = -0x1.601e68p+6f;
    static constexpr Word BITS = 23;
};
template <> struct Split<double> {
    using Word = uint64_t;
    static constexpr double ROUNDER = 0x1.8p52 + 1023, LOG2_E = 0x1.71547652b82fep+0;
    static constexpr double HIGH = 0x1.62e42feep-1, LOW = 0x1.a39ef35793c76p-33;
    static constexpr double BOTTOM = -0x1.628b76e3a7b61p+9;
    static constexpr Word BITS = 52;
};

// e^r times `scale`. (e^r - 1 - r) / r^2 is a polynomial that agrees with it at Chebyshev's nodes:
// what it misses is below 1.1e-8 of a float's power and 2.1e-17 of a double's. Terms are taken in
// pairs, since one after the other each would wait for the last.
INLINE float series(float r, float scale) {
    const float square = r * r;
    const float a = r * 0x1.5554dcp-3f + 0.5f;
    const float b = r * 0x1.120b90p-7f + 0x1.55551ap-5f;
    const float sum = ((square * 0x1.6d112cp-10f + b) * square + a) * square + r;
    return sum * scale + scale;
}
INLINE double series(double r, double scale) {
    const double square = r * r, fourth = square * square;
    const double a = r * 0x1.5555555555556p-3 + 0x1.0000000000001p-1;
    const double b = r * 0x1.11111111109afp-7 + 0x1.5555555553d56p-5;
    const double c = r * 0x1.a01a01a7c73c0p-13 + 0x1.6c16c17890eb4p-10;
    const double d = r * 0x1.71de0da24602dp-19 + 0x1.a019b8f9792eep-16;
    const double e = r * 0x1.af38c67fbb53fp-26 + 0x1.28919ccaf9211p-22;
    const double ab = b * square + a, cd = d * square + c;
    const double sum = ((e * fourth + cd) * fourth + ab) * square + r;
    return sum * scale + scale;
}

// e^x to about one unit in the last place, for x <= 0; 0 where that is below the normal numbers.
// `bottom` is BOTTOM, which the compiler had better not know: it would make two cases of it.
template <class Real> INLINE Real exponential(Real x, Real bottom) {
    using S = Split<Real>;
    x = x < bottom ? bottom : x;  // in this order NaN stays
    const Real rounded = x * S::LOG2_E + S::ROUNDER;
    const Real n = rounded - S::ROUNDER;
    const Real r = (x - n * S::HIGH) - n * S::LOW;
    typename S::Word word;
    std::memcpy(&word, &rounded, sizeof word);
    word <<= S::BITS;
    Real scale;
    std::memcpy(&scale, &word, sizeof scale);
    return series(r, scale);
}

// ln x for finite x >= 1 to less than a unit in the last place, as fdlibm has it; of anything else,
// anything. x is 2^k (1 + f), with 1 + f from the root of 1/2 to that of 2. Plain arithmetic, so that
// lanes share it.
INLINE double logarithm(double x) {
    constexpr uint64_t ROOT = 0x3fe6a09e667f3bcdu, ONE = 1023ull << 52, LOW = (1ull << 52) - 1;
    uint64_t word;
    std::memcpy(&word, &x, sizeof word);
    const uint64_t above = word - ROOT;
    uint64_t exponent = ((above + ONE) >> 52) | 0x4330000000000000u, rest = (above & LOW) + ROOT;
    double k, f;
    std::memcpy(&k, &exponent, sizeof k);
    std::memcpy(&f, &rest, sizeof f);
    k -= 0x1p52 + 1023;
    f -= 1;
    const double s = f / (2 + f), z = s * s, w = z * z, half = 0.5 * f * f;
    const double late = 0x1.c71c51d8e78afp-3 + w * 0x1.39a09d078c69fp-3;
    const double last = 0x1.7466496cb03dep-3 + w * 0x1.2f112df3e5244p-3;
    const double even = w * (0x1.999999997fa04p-2 + w * late);
    const double odd = z * (0x1.5555555555593p-1 + w * (0x1.2492494229359p-2 + w * last));
    const double near = half - (s * (half + even + odd) + k * 0x1.a39ef35793c76p-33);
    return k * 0x1.62e42feep-1 - (near - f);
}
// The largest number of a block; where it has none or only -inf, the lowest float, so that a
// difference to it is a number.
INLINE float largest_of(const float* x, int64_t n) {
    float largest = std::numeric_limits<float>::lowest();
#pragma omp simd reduction(max : largest)
    for (int64_t i = 0; i < n; i++) largest = x[i] > largest ? x[i] : largest;
    return largest;
}

// e^((x - top) / T) of each element, and their sum. `powers` may be `x` itself.
template <class Real, bool SCALED>
INLINE double powers_of(const float* x, float* powers, int64_t n, float top, Real inverse,
                        Real bottom) {
    const Real high = top;
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        const Real above = static_cast<Real>(x[i]) - high;
        const Real power = exponential(SCALED ? above * inverse : above, bottom);
        powers[i] = static_cast<float>(power);
        sum += static_cast<double>(power);
    }
    return sum;
}
template <class Real>
INLINE double powers_at(const float* x, float* powers, int64_t n, float top, double inverse,
                        Real bottom) {
    const Real factor = static_cast<Real>(inverse);
    if (inverse == 1) return powers_of<Real, false>(x, powers, n, top, factor, bottom);
    return powers_of<Real, true>(x, powers, n, top, factor, bottom);
}

// The functions that are compiled once per level of the processor.
LEVELLED float largest(const float* x, int64_t n) { return largest_of(x, n); }
LEVELLED double powers(const float* x, float* to, int64_t n, float top, double inverse,
                       float bottom) {
    return powers_at(x, to, n, top, inverse, bottom);
}
LEVELLED double powers(const float* x, float* to, int64_t n, float top, double inverse,
                       double bottom) {
    return powers_at(x, to, n, top, inverse, bottom);
}
LEVELLED double total(const float* x, int64_t n) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += static_cast<double>(x[i]);
    return sum;
}
LEVELLED void widen(const uint16_t* from, float* to, int64_t n) {
    for (int64_t i = 0; i < n; i++) to[i] = from_brain(from[i]);
}
// Powers become a gradient: times a factor, less an offset. `to` may be `powers` itself.
LEVELLED void scale(const float* powers, float* to, int64_t n, float factor, float offset) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) to[i] = powers[i] * factor - offset;
}
LEVELLED void scale(const float* powers, uint16_t* to, int64_t n, float factor, float offset) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) to[i] = to_brain(powers[i] * factor - offset);
}

}  // namespace
