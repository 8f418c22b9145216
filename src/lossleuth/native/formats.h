// Element types, and numbers of two bytes as float.

#pragma once

#include <cstdint>
#include <cstring>

#include "dispatch.h"

namespace {

// Element types, as `table.py` numbers them.
enum Type : int64_t { ABSENT = 0, FLOAT32 = 1, FLOAT64 = 2, BFLOAT16 = 3, FLOAT16 = 4 };

INLINE float from_half(uint16_t half) {
    const uint32_t size = half & 0x7fffu;
    const float tiny = static_cast<float>(static_cast<int32_t>(size)) * 0x1p-24f;
    uint32_t subnormal, word = (size << 13) + 0x38000000u + (size >= 0x7c00u ? 0x38000000u : 0u);
    std::memcpy(&subnormal, &tiny, sizeof tiny);
    word = (size < 0x400u ? subnormal : word) | (half & 0x8000u) << 16;
    float value;
    std::memcpy(&value, &word, sizeof value);
    return value;
}

INLINE float from_brain(uint16_t half) {
    const uint32_t word = static_cast<uint32_t>(half) << 16;
    float value;
    std::memcpy(&value, &word, sizeof value);
    return value;
}

// To the nearest, ties to even; NaN stays NaN.
INLINE uint16_t to_brain(float value) {
    uint32_t word;
    std::memcpy(&word, &value, sizeof word);
    word += 0x7fffu + (word >> 16 & 1u);
    return static_cast<uint16_t>(value != value ? 0x7fc0u : word >> 16);
}

}  // namespace
