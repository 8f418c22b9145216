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
// bits of a number's word, from where they are shifted into the exponent. Below BOTTOM the exponent's
// bits are all 0, and so is the power.
template <class Real> struct Split;
template <> struct Split<float> {
    using Word = uint32_t;
    static constexpr float ROUNDER = 0x1.8p23f + 127, LOG2_E = 0x1.715476p+0f;
    static constexpr float BOTTOM = -0x1.601e68p+6f;
    static constexpr Word BITS = 23;
};
template <> struct Split<double> {
    using Word = uint64_t;
    static constexpr double ROUNDER = 0x1.8p52 + 1023, LOG2_E = 0x1.71547652b82fep+0;
    static constexpr double BOTTOM = -0x1.628b76e3a7b61p+9;
    static constexpr Word BITS = 52;
};

// x - n ln 2. In float one multiplication does: where it is fused with the subtraction, its logarithm
// of 2 is off by 3e-9 of x, and x, a difference, by 6e-8 already; where it is not, by as much again. In
// double the first part of the logarithm is short, so that n times it is exact.
INLINE float remainder_of(float x, float n) { return x - n * 0x1.62e43p-1f; }
INLINE double remainder_of(double x, double n) {
    return (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
}

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
    const Real r = remainder_of(x, n);
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

// What is read after a block, to be fetched while the block is computed; null where nothing is known.
struct Ahead {
    const char* from = nullptr;
    int64_t size = 0;  // bytes of an element

    Ahead after(int64_t elements) const {
        return {from ? from + elements * size : nullptr, size};
    }
};
constexpr int64_t LINE = 64;  // bytes that come together
// Elements of a block that are computed while as many come: too many at once would wait in a queue.
template <class Real> constexpr int64_t PIECE = 256;
template <> constexpr int64_t PIECE<double> = 1024;  // each piece has a sum to finish

INLINE void fetch(const Ahead& ahead, int64_t first, int64_t last) {
    if (!ahead.from) return;
    for (int64_t at = first * ahead.size; at < last * ahead.size; at += LINE)
        __builtin_prefetch(ahead.from + at);
}

// e^((x - top) / T) of each element. `powers` may be `x` itself. In float64 their sum as well; that of
// float32 powers is taken from where they lie, since conversions would hold up the multiplications.
template <bool SCALED>
INLINE double powers_of(const float* x, float* powers, int64_t n, float top, float inverse,
                        float bottom) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float above = x[i] - top;
        powers[i] = exponential(SCALED ? above * inverse : above, bottom);
    }
    return 0;
}
template <bool SCALED>
INLINE double powers_of(const float* x, float* powers, int64_t n, float top, double inverse,
                        double bottom) {
    const double high = top;
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        const double above = static_cast<double>(x[i]) - high;
        const double power = exponential(SCALED ? above * inverse : above, bottom);
        powers[i] = static_cast<float>(power);
        sum += power;
    }
    return sum;
}
template <class Real>
INLINE double powers_at(const float* x, float* powers, int64_t n, float top, double inverse,
                        Real bottom, const Ahead& ahead) {
    const Real factor = static_cast<Real>(inverse);
    double sum = 0;
    for (int64_t first = 0; first < n; first += PIECE<Real>) {
        const int64_t count = first + PIECE<Real> < n ? PIECE<Real> : n - first;
        fetch(ahead, first, first + count);
        const float* from = x + first;
        float* to = powers + first;
        sum += inverse == 1 ? powers_of<false>(from, to, count, top, factor, bottom)
                            : powers_of<true>(from, to, count, top, factor, bottom);
    }
    return sum;
}

// The functions that are compiled once per level of the processor.
LEVELLED float largest(const float* x, int64_t n) { return largest_of(x, n); }
LEVELLED void powers(const float* x, float* to, int64_t n, float top, double inverse, float bottom,
                     const Ahead& ahead) {
    powers_at(x, to, n, top, inverse, bottom, ahead);
}
LEVELLED double powers(const float* x, float* to, int64_t n, float top, double inverse,
                       double bottom, const Ahead& ahead) {
    return powers_at(x, to, n, top, inverse, bottom, ahead);
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
