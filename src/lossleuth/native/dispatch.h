// What every native source shares: what is exported, one machine code per processor level, and
// the hash function.

#pragma once

#include <cstdint>

#define EXPORTED extern "C" __attribute__((visibility("default")))
#define INLINE inline __attribute__((always_inline))

// The level of x86-64 is chosen when the library is loaded; elsewhere the same plain loops are
// compiled once.
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) && __GNUC__ >= 12 && \
    !defined(LOSSLEUTH_ONE_LEVEL)
#define LEVELLED __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define LEVELLED
#endif

// The splitmix64 generator: GOLDEN is its increment, and `scattered` makes a word look random.
constexpr uint64_t GOLDEN = 0x9e3779b97f4a7c15u;
INLINE uint64_t scattered(uint64_t word) {
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9u;
    word = (word ^ word >> 27) * 0x94d049bb133111ebu;
    return word ^ word >> 31;
}
