// A mixture of n-grams that scores targets and then learns them. `ngrams.py` says what it is, and
// computes the same in Python.

#include <cmath>
#include <cstdint>
#include <new>
#include <vector>

#include "dispatch.h"

namespace {

// Contexts of no token up to so many.
constexpr int64_t ORDERS = 6;
// What a context's hash begins with, and what tells its followers from it.
constexpr uint64_t SEED = 0x243f6a8885a308d3u, FOLLOWER = 0xd6e8feb86659fd93u;

// How often a context was seen and with how many followers; of a follower only how often.
struct Entry {
    uint64_t key = 0;
    uint32_t count = 0, followers = 0;
};

// Open addressing; a key of 0 is a free place.
class Table {
  public:
    explicit Table(int64_t most) : most_(static_cast<uint64_t>(most)), entries_(1 << 12) {}

    const Entry* find(uint64_t key) const {
        const Entry& entry = entries_[place(key)];
        return entry.key == 0 ? nullptr : &entry;
    }

    // Whether a follower and its context may be new.
    bool has_room() const { return used_ + 2 <= most_; }

    // The entry of a key; if there is none a new one where that is wanted, else nullptr.
    Entry* at(uint64_t key, bool made) {
        uint64_t at = place(key);
        if (entries_[at].key == 0) {
            if (!made) return nullptr;
            if (2 * ++used_ > entries_.size()) {
                grow();
                at = place(key);
            }
            entries_[at].key = key;
        }
        return &entries_[at];
    }

  private:
    uint64_t place(uint64_t key) const {
        const uint64_t mask = entries_.size() - 1;
        uint64_t at = key & mask;
        while (entries_[at].key != 0 && entries_[at].key != key) at = (at + 1) & mask;
        return at;
    }

    void grow() {
        std::vector<Entry> before(2 * entries_.size());
        before.swap(entries_);
        for (const Entry& entry : before)
            if (entry.key != 0) entries_[place(entry.key)] = entry;
    }

    uint64_t most_, used_ = 0;
    std::vector<Entry> entries_;
};

struct Mixture {
    Mixture(int64_t vocabulary, int64_t most, double forgotten)
        : table(most), uniform(1.0 / static_cast<double>(vocabulary)), forgotten(forgotten) {
        for (double& weight : weights) weight = 1.0 / ORDERS;
    }
    Table table;
    double uniform, forgotten, weights[ORDERS];
};

// Hashes of the contexts that end at a position, shortest first; how many there are in its row.
int64_t contexts(const int32_t* row, int64_t at, uint64_t* keys) {
    uint64_t hash = keys[0] = SEED;
    int64_t order = 1;
    for (; order < ORDERS && at - order + 1 >= 0; order++) {
        const uint64_t token = static_cast<uint64_t>(row[at - order + 1]) + 1;
        hash = keys[order] = scattered(hash + token * GOLDEN);
    }
    return order;
}

uint64_t follower(uint64_t context, int32_t target) {
    return scattered((context ^ FOLLOWER) + (static_cast<uint64_t>(target) + 1) * GOLDEN);
}

double loss_of(Mixture& mixture, const int32_t* row, int64_t at, int32_t target) {
    uint64_t keys[ORDERS];
    const int64_t known = contexts(row, at, keys);
    double chance = mixture.uniform, chances[ORDERS], sum = 0;
    for (int64_t order = 0; order < ORDERS; order++) {
        const Entry* context = order < known ? mixture.table.find(keys[order]) : nullptr;
        if (context != nullptr && context->count > 0) {
            const Entry* found = mixture.table.find(follower(keys[order], target));
            const double times = found == nullptr ? 0 : found->count;
            chance = (times + context->followers * chance) / (context->count + context->followers);
        }
        chances[order] = chance;
        sum += mixture.weights[order] * chance;
    }
    for (int64_t order = 0; order < ORDERS; order++) {
        double& weight = mixture.weights[order];
        weight = (1 - mixture.forgotten) * weight * chances[order] / sum +
                 mixture.forgotten / ORDERS;
    }
    return -std::log(sum);
}

void learn(Mixture& mixture, const int32_t* row, int64_t at, int32_t target) {
    uint64_t keys[ORDERS];
    const int64_t known = contexts(row, at, keys);
    for (int64_t order = 0; order < known; order++) {
        const bool has_room = mixture.table.has_room();
        Entry* found = mixture.table.at(follower(keys[order], target), has_room);
        if (found == nullptr) continue;
        const bool is_new = found->count++ == 0;
        // A follower that is known has a context that is known.
        Entry* context = mixture.table.at(keys[order], has_room);
        context->count++;
        context->followers += is_new;
    }
}

}  // namespace

// 0 where there is no memory.
EXPORTED void* lossleuth_ngrams_make(int64_t vocabulary, int64_t most, double forgotten) {
    try {
        return new Mixture(vocabulary, most, forgotten);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

EXPORTED void lossleuth_ngrams_free(void* mixture) { delete static_cast<Mixture*>(mixture); }

// Rows of tokens and a target for each, or a negative number: the sum of their losses.
EXPORTED double lossleuth_ngrams_score(void* mixture, const int32_t* tokens, const int32_t* targets,
                                       int64_t rows, int64_t width) {
    double sum = 0;
    for (int64_t row = 0; row < rows; row++, tokens += width, targets += width)
        for (int64_t i = 0; i < width; i++)
            if (targets[i] >= 0)
                sum += loss_of(*static_cast<Mixture*>(mixture), tokens, i, targets[i]);
    return sum;
}

// Learn the same; not 0 when memory ran out.
EXPORTED int lossleuth_ngrams_learn(void* mixture, const int32_t* tokens, const int32_t* targets,
                                    int64_t rows, int64_t width) {
    try {
        for (int64_t row = 0; row < rows; row++, tokens += width, targets += width)
            for (int64_t i = 0; i < width; i++)
                if (targets[i] >= 0)
                    learn(*static_cast<Mixture*>(mixture), tokens, i, targets[i]);
    } catch (const std::bad_alloc&) {
        return 1;
    }
    return 0;
}
