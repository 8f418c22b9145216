// Sums of rows of float32, each method as it is written in serial code: the laboratory measures
// what they cost and what they lose. Nothing that trains calls these.

#include <cmath>

#include "dispatch.h"

namespace {

float naive(const float* x, int64_t count) {
    float sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += x[i];
    return sum;
}

float pairwise(const float* x, int64_t count) {
    if (count <= 8) return naive(x, count);
    const int64_t half = count / 2;
    return pairwise(x, half) + pairwise(x + half, count - half);
}

float kahan(const float* x, int64_t count) {
    float sum = 0, lost = 0;
    for (int64_t i = 0; i < count; ++i) {
        const float term = x[i] - lost;
        const float next = sum + term;
        lost = (next - sum) - term;
        sum = next;
    }
    return sum;
}

float neumaier(const float* x, int64_t count) {
    float sum = 0, lost = 0;
    for (int64_t i = 0; i < count; ++i) {
        const float next = sum + x[i];
        lost += std::fabs(sum) >= std::fabs(x[i]) ? (sum - next) + x[i] : (x[i] - next) + sum;
        sum = next;
    }
    return sum + lost;
}

double wide(const float* x, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += x[i];
    return sum;
}

}  // namespace

// Rows of `width` numbers one behind the other; methods in the order of `summation.py`.
EXPORTED void lossleuth_row_sums(const float* x, int64_t rows, int64_t width, int64_t method,
                                 double* sums) {
    for (int64_t row = 0; row < rows; ++row, x += width) {
        sums[row] = method == 0   ? naive(x, width)
                    : method == 1 ? pairwise(x, width)
                    : method == 2 ? kahan(x, width)
                    : method == 3 ? neumaier(x, width)
                                  : wide(x, width);
    }
}
