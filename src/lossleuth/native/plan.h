// What `statistics.py` hands over to the passes over parameters.

#pragma once

#include <cstdint>

namespace {

// The fields, each with eight bytes for every parameter, as `table.py` writes them.
enum Field : int64_t {
    PARAMETER, BEFORE, GRADIENT, FIRST, SECOND, THRESHOLD,
    PARAMETER_TYPE, GRADIENT_TYPE, FIRST_TYPE, SECOND_TYPE, COUNT, FIELDS
};

// Neighbouring blocks of a tensor of which a step looks at one (`blocks.py`).
struct Group {
    int64_t tensor;
    int64_t first_block;
    int64_t blocks;
    int64_t length;  // of a block; a tensor's last can be shorter
    int64_t slot;    // where in the tensor's copy the block goes
};

struct Groups {
    const Group* groups;
    int64_t count;
};

// `fields` has each field for all tensors, then the next.
struct Plan {
    char (*fields)[8];
    int64_t count;
    Groups everything;
    Groups selected;
    double* results;
    int64_t columns;

    template <class T> T* field(Field which) const {
        return reinterpret_cast<T*>(fields + which * count);
    }
};

}  // namespace
