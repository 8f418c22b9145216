// Statistics of parameters, gradients, updates and moments.
//
// A C interface for ctypes: it knows addresses and element types, nothing of torch. It reads the
// caller's tensors and writes only buffers of ours. Sums are in float64 and no unsafe mathematics
// is allowed, so that NaN and infinity are seen. Work is cut into spans that do not depend on the
// number of threads, and the spans' sums are added in order: any number of threads gives the same
// bits. `statistics.py` says what each column means; `fallback.py` computes the same in torch.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "dispatch.h"
#include "loops.h"
#include "plan.h"
#include "threads.h"

#ifndef LOSSLEUTH_SOURCE
#define LOSSLEUTH_SOURCE 0
#endif

namespace {

// A parameter with what belongs to it.
struct Tensor {
    const char* parameter;
    char* before;
    const char* gradient;
    const char* first;
    const char* second;
    double threshold;
    int64_t parameter_type;
    int64_t gradient_type;
    int64_t first_type;
    int64_t second_type;
    int64_t count;
};

static_assert(sizeof(Tensor) == 8 * FIELDS);

struct Step {
    std::vector<Tensor> tensors;
    Groups everything;
    Groups selected;
    double* results;
    int64_t columns;
    uint64_t number;

    Step(const Plan& plan, uint64_t number)
        : tensors(plan.count), everything(plan.everything), selected(plan.selected),
          results(plan.results), columns(plan.columns), number(number) {
        for (int64_t t = 0; t < plan.count; t++)
            for (int64_t field = 0; field < FIELDS; field++)
                std::memcpy(reinterpret_cast<char*>(&tensors[t]) + 8 * field,
                            plan.fields[field * plan.count + t], 8);
    }
};

struct Span {
    int64_t offset;
    int64_t length;
};

constexpr int64_t BLOCK = 4096;       // elements that are looked at in one go, from cache
constexpr int64_t BATCH = 4;          // groups that a thread takes at once

// The block that a step looks at, as `blocks.py` picks it too.
Span pick(const Step& step, const Groups& all, int64_t index) {
    const Group& group = all.groups[index];
    const uint64_t word = scattered(static_cast<uint64_t>(index) + step.number * GOLDEN);
    const int64_t block = static_cast<int64_t>(word % static_cast<uint64_t>(group.blocks));
    const int64_t offset = (group.first_block + block) * group.length;
    return {offset, std::min(group.length, step.tensors[group.tensor].count - offset)};
}

int64_t size_of(int64_t type) { return type == FLOAT64 ? 8 : type == FLOAT32 ? 4 : 2; }

// Elements as `Real`: where they lie if they are that already, else widened into `scratch`.
template <class Real>
const Real* read(const char* base, int64_t type, int64_t offset, int64_t n, Real* scratch) {
    if (type == ABSENT) return nullptr;
    const char* from = base + offset * size_of(type);
    if (type == (sizeof(Real) == 8 ? FLOAT64 : FLOAT32)) return reinterpret_cast<const Real*>(from);
    widen(from, type, n, scratch);
    return scratch;
}

template <class Real> void measure_gradient(const Tensor& t, Span span, GradientPart& part) {
    alignas(64) Real scratch[BLOCK];
    for (int64_t done = 0; done < span.length; done += BLOCK) {
        const int64_t n = std::min(BLOCK, span.length - done);
        gradient(read(t.gradient, t.gradient_type, span.offset + done, n, scratch), n, part);
    }
}

template <class Real>
void measure_update(const Tensor& t, Span span, int64_t slot, UpdatePart& part) {
    alignas(64) Real scratch[4][BLOCK];
    for (int64_t done = 0; done < span.length; done += BLOCK) {
        const int64_t n = std::min(BLOCK, span.length - done);
        const int64_t at = span.offset + done;
        const Real* p = read(t.parameter, t.parameter_type, at, n, scratch[0]);
        const Real* old = read(t.before, t.parameter_type, slot + done, n, scratch[1]);
        const Real* x = read(t.first, t.first_type, at, n, scratch[2]);
        if (!x) x = read(t.gradient, t.gradient_type, at, n, scratch[2]);
        const Real* v = read(t.second, t.second_type, at, n, scratch[3]);
        const int64_t unchanged = update(p, old, n, part);
        if (v) {
            moments(x ? x : v, v, n, t.threshold, part);
        } else if (x) {
            const double total = squares(x, n);
            part.wanted_squares += total;
            part.first_squares += total;
        }
        if (x && unchanged) part.swallowed_squares += swallowed(p, old, x, v, n, t.threshold);
    }
}

bool any_double(const Tensor& t) {
    return t.parameter_type == FLOAT64 || t.first_type == FLOAT64 || t.second_type == FLOAT64 ||
           (t.first_type == ABSENT && t.gradient_type == FLOAT64);
}

// Calls `add(i)` for each group of a tensor, in order; whether there was one.
template <class Add>
bool for_groups_of(int64_t tensor, const Groups& all, int64_t& next, const Add& add) {
    const int64_t first = next;
    for (; next < all.count && all.groups[next].tensor == tensor; next++) add(next);
    return next > first;
}

void write_gradients(const Step& step, const std::vector<GradientPart>& parts) {
    int64_t next = 0;
    for (int64_t t = 0; t < static_cast<int64_t>(step.tensors.size()); t++) {
        GradientPart sum;
        const bool any = for_groups_of(t, step.everything, next, [&](int64_t i) {
            sum.sum += parts[i].sum;
            sum.squares += parts[i].squares;
            sum.largest = larger(sum.largest, parts[i].largest);
            sum.zeros += parts[i].zeros;
            sum.nonfinite += parts[i].nonfinite;
        });
        if (!any) sum.largest = MISSING;
        double* row = step.results + t * step.columns;
        std::fill_n(row, step.columns, MISSING);
        if (step.tensors[t].gradient_type != ABSENT) std::memcpy(row, &sum, sizeof sum);
    }
}

// What was seen in part is scaled up to the whole tensor.
void write_updates(const Step& step, const std::vector<UpdatePart>& parts) {
    int64_t next = 0;
    for (int64_t t = 0; t < static_cast<int64_t>(step.tensors.size()); t++) {
        const Tensor& tensor = step.tensors[t];
        UpdatePart sum;
        int64_t seen = 0;
        for_groups_of(t, step.selected, next, [&](int64_t i) {
            sum.weight_squares += parts[i].weight_squares;
            sum.update_squares += parts[i].update_squares;
            sum.weight_nonfinite += parts[i].weight_nonfinite;
            sum.wanted_squares += parts[i].wanted_squares;
            sum.swallowed_squares += parts[i].swallowed_squares;
            sum.first_squares += parts[i].first_squares;
            sum.second_sum += parts[i].second_sum;
            sum.second_smallest = smaller(sum.second_smallest, parts[i].second_smallest);
            sum.second_under_epsilon += parts[i].second_under_epsilon;
            seen += pick(step, step.selected, i).length;
        });
        if (tensor.parameter_type == ABSENT) continue;
        if (!seen) sum.second_smallest = MISSING;
        if (tensor.first_type == ABSENT) sum.first_squares = MISSING;
        if (tensor.first_type == ABSENT && tensor.gradient_type == ABSENT)
            sum.wanted_squares = sum.swallowed_squares = MISSING;
        if (tensor.second_type == ABSENT) sum.second_sum = sum.second_smallest = MISSING;
        if (tensor.second_type == ABSENT || std::isnan(tensor.threshold))
            sum.second_under_epsilon = MISSING;
        sum.seen_share = seen ? static_cast<double>(seen) / static_cast<double>(tensor.count) : 1;
        for (double* summed : {&sum.weight_squares, &sum.update_squares, &sum.weight_nonfinite,
                               &sum.wanted_squares, &sum.swallowed_squares, &sum.first_squares,
                               &sum.second_sum, &sum.second_under_epsilon})
            *summed /= sum.seen_share;
        double* row = step.results + t * step.columns;
        std::memcpy(row + sizeof(GradientPart) / sizeof(double), &sum, sizeof sum);
    }
}

}  // namespace

// The checksum of the source that this library was built from.
EXPORTED uint32_t lossleuth_source() { return LOSSLEUTH_SOURCE; }

// Statistics of all gradients, and a copy of the parameters' selected blocks.
// 0, or 1 when memory ran out.
EXPORTED int lossleuth_before(const Plan* plan, uint64_t number, int64_t threads) try {
    const Step step(*plan, number);
    const Groups &all = step.everything, &selected = step.selected;
    std::vector<GradientPart> parts(all.count);
    share(all.count + selected.count, BATCH, threads, [&](int64_t i, int64_t) noexcept {
        if (i < all.count) {
            const Tensor& t = step.tensors[all.groups[i].tensor];
            const Span span = pick(step, all, i);
            if (t.gradient_type == FLOAT64) measure_gradient<double>(t, span, parts[i]);
            else if (t.gradient_type != ABSENT) measure_gradient<float>(t, span, parts[i]);
        } else {
            const Group& group = selected.groups[i - all.count];
            const Tensor& t = step.tensors[group.tensor];
            if (t.parameter_type == ABSENT) return;
            const Span span = pick(step, selected, i - all.count);
            const int64_t size = size_of(t.parameter_type);
            const char* from = t.parameter + span.offset * size;
            std::memcpy(t.before + group.slot * size, from, span.length * size);
        }
    });
    write_gradients(step, parts);
    return 0;
} catch (...) {
    return 1;
}

// Statistics of the updates and moments in the blocks that were copied before.
// 0, or 1 when memory ran out.
EXPORTED int lossleuth_after(const Plan* plan, uint64_t number, int64_t threads) try {
    const Step step(*plan, number);
    const Groups& selected = step.selected;
    std::vector<UpdatePart> parts(selected.count);
    share(selected.count, BATCH, threads, [&](int64_t i, int64_t) noexcept {
        const Group& group = selected.groups[i];
        const Tensor& t = step.tensors[group.tensor];
        if (t.parameter_type == ABSENT) return;
        const Span span = pick(step, selected, i);
        if (any_double(t)) measure_update<double>(t, span, group.slot, parts[i]);
        else measure_update<float>(t, span, group.slot, parts[i]);
    });
    write_updates(step, parts);
    return 0;
} catch (...) {
    return 1;
}
