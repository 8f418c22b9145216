// Cross-entropy and its gradient, row by row.
//
// A C interface for ctypes: it knows addresses and element types, nothing of torch. A row's powers
// are summed in float64, block by block with a maximum of their own, and kept where the gradient
// goes; a second pass over the row, still in cache, scales them. The target's power is kept out of
// the sum, since 1 - p is lost where p is near 1. Rows do not know of each other, and their losses
// are added in order: any number of threads gives the same bits. `losses_fallback.py` computes the
// same in torch.

#include <cstdint>
#include <memory>
#include <vector>

#include "lanes.h"
#include "rows.h"

namespace {

// What `row_losses.py` hands over.
struct Problem {
    Layout logits;
    Layout gradient;
    const int64_t* targets;
    const uint8_t* mask;  // null: every row counts unless its target is ignored
    double* losses;       // of each row, 0 where it does not count; null where only the sum is wanted
    int64_t type;
    int64_t rows;
    int64_t width;
    int64_t ignored;
    int64_t exact;
    double inverse_temperature;
    double smoothing;
    double weight;  // of each row in the loss that the gradient is of

    bool counts(int64_t row) const {
        return targets[row] != ignored && (mask == nullptr || mask[row] != 0);
    }
};

// Memory of one thread.
struct Scratch {
    std::vector<float> block, row, tops;
    std::vector<double> sums;
    Lanes lanes;

    explicit Scratch(const Problem& problem) {
        if (problem.width <= NARROW) return;  // lanes are all that is needed
        block.resize(BLOCK);
        row.resize(problem.type == BFLOAT16 ? problem.width : 0);
        tops.resize((problem.width + BLOCK - 1) / BLOCK);
        sums.resize(tops.size());
    }
};

struct Finished {
    double loss;
    double factor;  // that turns a power into a gradient
    double target;  // the gradient of the target's logit
};

// `own` is the target's power and `others` the sum of all others, each relative to `top`; `log` is
// that of their sum over `own` where the target is sure, else that of their sum.
INLINE Finished finish(const Problem& problem, double others, double own, double log, double top,
                       double logit, double total) {
    const double sum = others + own, smoothing = problem.smoothing;
    const double inverse = problem.inverse_temperature, width = problem.width;
    double loss = is_sure(others, own) ? log : log + (top - logit) * inverse;
    if (smoothing != 0) {
        const double mean = std::log(sum) + (top - total / width) * inverse;
        loss = (1 - smoothing) * loss + smoothing * mean;
    }
    const double scaled = problem.weight * inverse;
    return {loss, scaled / sum, (smoothing - smoothing / width - others / sum) * scaled};
}

float offset_of(const Problem& problem) {
    const double share = problem.smoothing / static_cast<double>(problem.width);
    return static_cast<float>(share * problem.weight * problem.inverse_temperature);
}

// The sum of a block's powers without that of the element `target`, if it is in the block; that one
// goes to `own`.
double powers_without(const float* x, float* to, int64_t n, float top, double inverse,
                      int64_t target, double& own, float bottom, const Ahead& ahead) {
    powers(x, to, n, top, inverse, bottom, ahead);
    if (target >= 0 && target < n) {
        own = to[target];
        to[target] = 0;
    }
    return total(to, n);
}
double powers_without(const float* x, float* to, int64_t n, float top, double inverse,
                      int64_t target, double& own, double bottom, const Ahead& ahead) {
    if (target < 0 || target >= n) return powers(x, to, n, top, inverse, bottom, ahead);
    const int64_t next = target + 1;
    own = powers(x + target, to + target, 1, top, inverse, bottom, Ahead());
    return powers(x, to, target, top, inverse, bottom, ahead) +
           powers(x + next, to + next, n - next, top, inverse, bottom, ahead.after(next));
}

// Where a row's powers are kept until they are scaled.
float* place(float* gradient, int64_t offset, Scratch& scratch) {
    return gradient ? gradient + offset : scratch.block.data();
}
float* place(uint16_t* gradient, int64_t offset, Scratch& scratch) {
    return gradient ? scratch.row.data() + offset : scratch.block.data();
}

// `Real` is what powers are computed in; `next` is the row that comes after, or null.
template <class Real, class Element>
double row_loss(const Problem& problem, const Element* x, Element* gradient, int64_t target,
                const Element* next, Scratch& scratch) {
    const int64_t width = problem.width, blocks = static_cast<int64_t>(scratch.tops.size());
    const double inverse = problem.inverse_temperature;
    const double logit = element(x, target);
    float top = std::numeric_limits<float>::lowest();
    double own = 0, sum_of_logits = 0;
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t offset = b * BLOCK, n = std::min(BLOCK, width - offset);
        float* to = place(gradient, offset, scratch);
        const float* from = read(x + offset, n, to);
        if (problem.smoothing != 0) sum_of_logits += total(from, n);
        scratch.tops[b] = largest(from, n);
        top = std::max(top, scratch.tops[b]);
        const Element* then = b + 1 < blocks ? x + offset + n : next;
        scratch.sums[b] = powers_without(from, to, n, scratch.tops[b], inverse, target - offset,
                                         own, Split<Real>::BOTTOM,
                                         {reinterpret_cast<const char*>(then), sizeof *then});
    }
    double others = 0;
    for (int64_t b = 0; b < blocks; b++) {
        const double below = (static_cast<double>(scratch.tops[b]) - top) * inverse;
        const double factor = below == 0 ? 1 : std::exp(below);
        others += scratch.sums[b] * factor;
        scratch.sums[b] = factor;
    }
    own *= scratch.sums[target / BLOCK];
    const double log = is_sure(others, own) ? std::log1p(others / own) : std::log(others + own);
    const Finished row = finish(problem, others, own, log, top, logit, sum_of_logits);
    if (!gradient) return row.loss;
    const float less = offset_of(problem);
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t offset = b * BLOCK, n = std::min(BLOCK, width - offset);
        const float factor = static_cast<float>(row.factor * scratch.sums[b]);
        scale(place(gradient, offset, scratch), gradient + offset, n, factor, less);
    }
    set(gradient, target, row.target);
    return row.loss;
}

template <class Real, class Element>
void wide_rows(const Problem& problem, int64_t first, int64_t last, Scratch& scratch) {
    for (int64_t i = first; i < last; i++) {
        Element* gradient = problem.gradient.base ? problem.gradient.row<Element>(i) : nullptr;
        const Element* next = i + 1 < last ? problem.logits.row<Element>(i + 1) : nullptr;
        problem.losses[i] = 0;
        if (problem.counts(i))
            problem.losses[i] = row_loss<Real>(problem, problem.logits.row<Element>(i), gradient,
                                               problem.targets[i], next, scratch);
        else if (gradient)
            std::memset(gradient, 0, problem.width * sizeof(Element));
    }
}

LEVELLED void finish_across(const Problem& problem, Lanes& lanes) {
    for (int64_t l = 0; l < LANES; l++) {
        const Finished row = finish(problem, lanes.others[l], lanes.own[l], lanes.logs[l],
                                    lanes.tops[l], lanes.logits[l], lanes.totals[l]);
        lanes.losses[l] = row.loss;
        lanes.factors[l] = static_cast<float>(row.factor);
        lanes.gradients[l] = row.target;
    }
}

// As many rows as there are lanes at once.
template <class Real, class Element>
void narrow_rows(const Problem& problem, int64_t first, int64_t last, Scratch& scratch) {
    Lanes& lanes = scratch.lanes;
    const Element* from[LANES];
    Element* to[LANES];
    for (int64_t start = first; start < last; start += LANES) {
        const int64_t count = std::min(LANES, last - start);
        for (int64_t l = 0; l < LANES; l++) {
            const int64_t i = start + std::min(l, count - 1);  // what is missing repeats the last
            from[l] = problem.logits.row<Element>(i);
            to[l] = problem.gradient.base ? problem.gradient.row<Element>(i) : nullptr;
            lanes.targets[l] = problem.counts(i) ? static_cast<float>(problem.targets[i]) : 0;
        }
        gather(from, problem.width, lanes);
        if (problem.smoothing != 0) totals_across(lanes, problem.width);
        powers_across(lanes, problem.width, problem.inverse_temperature,
                      Split<Real>::BOTTOM);
        logs_across(lanes);
        finish_across(problem, lanes);
        if (problem.gradient.base) scatter(lanes, problem.width, offset_of(problem), to, count);
        for (int64_t l = 0; l < count; l++) {
            const bool counts = problem.counts(start + l);
            problem.losses[start + l] = counts ? lanes.losses[l] : 0;
            if (!problem.gradient.base) continue;
            if (counts) set(to[l], static_cast<int64_t>(lanes.targets[l]), lanes.gradients[l]);
            else std::memset(to[l], 0, problem.width * sizeof(Element));
        }
    }
}

template <class Real, class Element>
void solve(const Problem& problem, int64_t threads) {
    const bool narrow = problem.width <= NARROW;
    std::vector<Scratch> scratch;
    scratch.reserve(std::max<int64_t>(threads, 1));
    while (scratch.size() < scratch.capacity()) scratch.emplace_back(problem);
    share_rows(problem.rows, problem.width, narrow ? LANES : 1, threads,
               [&](int64_t first, int64_t last, int64_t worker) {
                   const auto rows = narrow ? narrow_rows<Real, Element> : wide_rows<Real, Element>;
                   rows(problem, first, last, scratch[worker]);
               });
}

INLINE bool is_column(int64_t target, int64_t width) { return target >= 0 && target < width; }

// How many rows count; returns how many of them have a target that is no column.
LEVELLED int64_t examine(const int64_t* targets, const uint8_t* mask, int64_t rows, int64_t ignored,
                         int64_t width, int64_t* __restrict count) {
    *count = 0;
    int64_t wrong = 0;
    for (int64_t i = 0; i < rows; i++) {
        const bool counts = targets[i] != ignored && (mask == nullptr || mask[i] != 0);
        *count += counts;
        wrong += counts && !is_column(targets[i], width);
    }
    return wrong;
}

}  // namespace

// How many rows count, and the first of them whose target is no column: -1 where there is none.
EXPORTED int64_t lossleuth_supervised(const int64_t* targets, const uint8_t* mask, int64_t rows,
                                      int64_t ignored, int64_t width, int64_t* count) {
    if (examine(targets, mask, rows, ignored, width, count) == 0) return -1;
    const auto is_wrong = [&](int64_t i) {
        const bool counts = targets[i] != ignored && (mask == nullptr || mask[i] != 0);
        return counts && !is_column(targets[i], width);
    };
    int64_t first = 0;
    while (!is_wrong(first)) first++;
    return first;
}

// The loss of each row and their sum, and the gradient where it is wanted, which may lie where the
// logits do. Targets are columns. 0, or 1 when memory ran out.
EXPORTED int lossleuth_cross_entropy(const Problem* given, int64_t threads, double* sum) try {
    Problem problem = *given;
    std::unique_ptr<double[]> losses;
    if (!problem.losses) losses.reset(problem.losses = new double[problem.rows]);
    const bool brain = problem.type == BFLOAT16;
    if (problem.exact)
        brain ? solve<double, uint16_t>(problem, threads) : solve<double, float>(problem, threads);
    else
        brain ? solve<float, uint16_t>(problem, threads) : solve<float, float>(problem, threads);
    *sum = sum_of(problem.losses, problem.rows);
    return 0;
} catch (...) {
    return 1;
}
