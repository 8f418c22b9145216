// Kullback and Leibler's divergence of a student's rows from a teacher's, and its gradient.
//
// As `losses.cpp`: rows alone, sums in float64, any number of threads gives the same bits.
// `losses_fallback.py` computes the same in torch.

#include <cstdint>
#include <vector>

#include "rows.h"

namespace {

// What `row_losses.py` hands over.
struct Pair {
    Layout student;
    Layout teacher;
    Layout gradient;
    const uint8_t* mask;  // null: every row counts
    double* losses;       // of each row; 0 where it does not count
    int64_t type;
    int64_t rows;
    int64_t width;
    int64_t exact;
    double inverse_temperature;
    double weight;  // of each row in the loss that the gradient is of
};

struct Sums {
    double student = 0, teacher = 0, differences = 0;
};

template <class Real> struct Scratch {
    std::vector<float> student_block, teacher_block;
    std::vector<Real> student, teacher;

    explicit Scratch(int64_t width)
        : student_block(BLOCK), teacher_block(BLOCK), student(width), teacher(width) {}
};

// Powers of both, and the teacher's times how far its exponent is above the student's. What the
// teacher rules out adds nothing, whatever the student says of it.
template <class Real>
INLINE void add_powers(const float* x, const float* y, Real* student, Real* teacher, int64_t n,
                       float top_x, float top_y, double inverse_temperature, Real bottom,
                       Sums& sums) {
    const Real high_x = top_x, high_y = top_y, inverse = static_cast<Real>(inverse_temperature);
    double sum_x = 0, sum_y = 0, differences = 0;
#pragma omp simd reduction(+ : sum_x, sum_y, differences)
    for (int64_t i = 0; i < n; i++) {
        const Real above_x = (static_cast<Real>(x[i]) - high_x) * inverse;
        const Real above_y = (static_cast<Real>(y[i]) - high_y) * inverse;
        const Real power_x = exponential(above_x, bottom);
        const Real power_y = exponential(above_y, bottom);
        student[i] = power_x;
        teacher[i] = power_y;
        sum_x += static_cast<double>(power_x);
        sum_y += static_cast<double>(power_y);
        const double difference = static_cast<double>(above_y) - static_cast<double>(above_x);
        differences += power_y == 0 ? 0.0 : static_cast<double>(power_y) * difference;
    }
    sums.student += sum_x;
    sums.teacher += sum_y;
    sums.differences += differences;
}
// Where both are the same the ratio of their sums is 1, and nothing is left.
template <class Real, class Element>
INLINE void subtract_scaled(const Real* student, const Real* teacher, Element* to, int64_t n,
                            double ratio, double factor) {
    const Real relative = static_cast<Real>(ratio), scale = static_cast<Real>(factor);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float value = static_cast<float>((student[i] * relative - teacher[i]) * scale);
        if constexpr (sizeof(Element) == 2) to[i] = to_brain(value);
        else to[i] = value;
    }
}

LEVELLED void both(const float* x, const float* y, float* student, float* teacher, int64_t n,
                   float top_x, float top_y, double inverse, float bottom, Sums& sums) {
    add_powers(x, y, student, teacher, n, top_x, top_y, inverse, bottom, sums);
}
LEVELLED void both(const float* x, const float* y, double* student, double* teacher, int64_t n,
                   float top_x, float top_y, double inverse, double bottom, Sums& sums) {
    add_powers(x, y, student, teacher, n, top_x, top_y, inverse, bottom, sums);
}
LEVELLED void subtract(const float* x, const float* y, float* to, int64_t n, double a, double b) {
    subtract_scaled(x, y, to, n, a, b);
}
LEVELLED void subtract(const double* x, const double* y, float* to, int64_t n, double a, double b) {
    subtract_scaled(x, y, to, n, a, b);
}
LEVELLED void subtract(const float* x, const float* y, uint16_t* to, int64_t n, double a,
                       double b) {
    subtract_scaled(x, y, to, n, a, b);
}
LEVELLED void subtract(const double* x, const double* y, uint16_t* to, int64_t n, double a,
                       double b) {
    subtract_scaled(x, y, to, n, a, b);
}

template <class Element> float top_of(const Element* x, int64_t width, float* block) {
    float top = std::numeric_limits<float>::lowest();
    for (int64_t offset = 0; offset < width; offset += BLOCK) {
        const int64_t n = std::min(BLOCK, width - offset);
        top = std::max(top, largest(read(x + offset, n, block), n));
    }
    return top;
}

template <class Real, class Element>
double row_divergence(const Pair& pair, const Element* x, const Element* y, Element* gradient,
                      Scratch<Real>& scratch) {
    const double inverse = pair.inverse_temperature;
    float *block_x = scratch.student_block.data(), *block_y = scratch.teacher_block.data();
    const float top_x = top_of(x, pair.width, block_x), top_y = top_of(y, pair.width, block_y);
    Sums sums;
    for (int64_t offset = 0; offset < pair.width; offset += BLOCK) {
        const int64_t n = std::min(BLOCK, pair.width - offset);
        both(read(x + offset, n, block_x), read(y + offset, n, block_y), &scratch.student[offset],
             &scratch.teacher[offset], n, top_x, top_y, inverse, Split<Real>::BOTTOM, sums);
    }
    if (gradient)
        subtract(scratch.student.data(), scratch.teacher.data(), gradient, pair.width,
                 sums.teacher / sums.student, pair.weight * inverse / sums.teacher);
    return sums.differences / sums.teacher + std::log(sums.student / sums.teacher);
}

template <class Real, class Element> void solve(const Pair& pair, int64_t threads) {
    std::vector<Scratch<Real>> scratch(std::max<int64_t>(threads, 1), Scratch<Real>(pair.width));
    const auto job = [&](int64_t first, int64_t last, int64_t worker) {
        for (int64_t i = first; i < last; i++) {
            Element* gradient = pair.gradient.base ? pair.gradient.row<Element>(i) : nullptr;
            pair.losses[i] = 0;
            if (pair.mask == nullptr || pair.mask[i])
                pair.losses[i] =
                    row_divergence<Real>(pair, pair.student.row<Element>(i),
                                         pair.teacher.row<Element>(i), gradient, scratch[worker]);
            else if (gradient)
                std::memset(gradient, 0, pair.width * sizeof(Element));
        }
    };
    share_rows(pair.rows, pair.width, 1, threads, job);
}

}  // namespace

// The divergence of each row and their sum, and the gradient of the student's logits where it is
// wanted, which may lie where they do. 0, or 1 when memory ran out.
EXPORTED int lossleuth_divergence(const Pair* pair, int64_t threads, double* sum) try {
    const bool brain = pair->type == BFLOAT16;
    if (pair->exact)
        brain ? solve<double, uint16_t>(*pair, threads) : solve<double, float>(*pair, threads);
    else
        brain ? solve<float, uint16_t>(*pair, threads) : solve<float, float>(*pair, threads);
    *sum = sum_of(pair->losses, pair->rows);
    return 0;
} catch (...) {
    return 1;
}
