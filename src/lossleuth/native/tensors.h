// Where tensors lie, asked of the C interface that torch keeps stable for compiled models.
//
// Its functions, and where in an object of Python torch keeps a tensor's inner one, are found by
// `handles.py`; nothing here knows torch's classes.

#pragma once

#include <cstdint>
#include <cstring>

#include "formats.h"

namespace {

// Torch's inner tensor, by the address of a pointer to it.
using Handle = void**;
using Failed = int32_t;  // not 0 when torch refuses; it is asked nothing that it would refuse

// What `handles.py` hands over: objects of Python, addresses of functions, numbers of torch's.
struct Torch {
    PyObject* transform;     // a function: the transform of `torch.func` that we are in, or None
    PyTypeObject* plain[2];  // subclasses of these may keep their values anywhere
    int64_t inner;           // how far into such an object the pointer to its inner tensor stands
    Failed (*device_type)(Handle, int32_t*);
    Failed (*layout)(Handle, int32_t*);
    Failed (*dtype)(Handle, int32_t*);
    Failed (*dim)(Handle, int64_t*);
    Failed (*sizes)(Handle, const int64_t**);
    Failed (*strides)(Handle, const int64_t**);
    Failed (*storage_size)(Handle, int64_t*);
    Failed (*storage_offset)(Handle, int64_t*);
    Failed (*data_ptr)(Handle, const char**);
    int64_t processor, strided;
    int64_t dtypes[6];  // in the order of the types below

    // Inside a transform a tensor may be a wrapper without memory.
    bool is_inside_transform() const {
        PyObject* found = PyObject_CallFunctionObjArgs(transform, nullptr);
        Py_XDECREF(found);
        return found != Py_None;
    }

    bool is_plain(PyObject* object) const {
        return Py_TYPE(object) == plain[0] || Py_TYPE(object) == plain[1];
    }
};

// After the types of `formats.h`.
constexpr int64_t INT32 = 5, INT64 = 6;
constexpr int64_t BYTES[] = {0, 4, 8, 2, 2, 4, 8};

// A tensor in this machine's memory: rows of a width, each so far after the one before.
struct Place {
    const char* data = nullptr;
    int64_t type = ABSENT, count = 0, rows = 0, width = 0, stride = 0;

    bool has_gaps() const { return stride != width; }
};

bool find(const Torch& torch, Handle handle, Place& place) {
    int32_t device, layout, dtype;
    int64_t dim, bytes, offset;
    const int64_t *sizes, *strides;
    if (torch.device_type(handle, &device) || device != torch.processor) return false;
    if (torch.layout(handle, &layout) || layout != torch.strided) return false;
    if (torch.dtype(handle, &dtype)) return false;
    for (int64_t i = 0; i < 6; i++)
        if (torch.dtypes[i] == dtype) place.type = i + 1;
    if (place.type == ABSENT || torch.dim(handle, &dim)) return false;
    if (torch.sizes(handle, &sizes) || torch.strides(handle, &strides)) return false;
    bool whole = true;
    place.count = 1;
    for (int64_t i = dim - 1; i >= 0; i--) {
        whole = whole && (sizes[i] == 1 || strides[i] == place.count);
        place.count *= sizes[i];
    }
    place.width = place.stride = dim ? sizes[dim - 1] : 1;
    place.rows = place.count ? place.count / place.width : 0;
    if (!whole && place.count) {
        // Cut from longer rows, or nothing that we read.
        if (dim != 2 || strides[1] != 1 || strides[0] < sizes[1]) return false;
        place.stride = strides[0];
    }
    if (torch.storage_size(handle, &bytes) || torch.storage_offset(handle, &offset)) return false;
    // Its memory may have been given back.
    const int64_t extent = place.count ? (place.rows - 1) * place.stride + place.width : 0;
    if (extent && (offset + extent) * BYTES[place.type] > bytes) return false;
    // A tensor of zeros may have no memory at all.
    return !torch.data_ptr(handle, &place.data) && (place.data || !place.count);
}

// Tensors that are looked at together, and what torch keeps of one, in bytes.
constexpr int64_t TOGETHER = 64;
constexpr int64_t LINE = 64, KEPT = 4 * LINE;

// Calls `use(i, place)` for each of n tensors until that says no; of None the place is absent.
// Whether all were plain memory or None, and `use` never said no.
template <class Use>
bool for_each(const Torch& torch, PyObject* const* tensors, int64_t n, const Use& use) {
    void* inner[TOGETHER];
    for (int64_t first = 0; first < n; first += TOGETHER) {
        const int64_t end = n - first < TOGETHER ? n : first + TOGETHER;
        // None of it was touched for a while: what comes from far away is fetched for all at once.
        for (int64_t i = first; i < end; i++) __builtin_prefetch(tensors[i]);
        for (int64_t i = first; i < end; i++) {
            void*& pointer = inner[i - first];
            pointer = nullptr;
            if (tensors[i] == Py_None) continue;
            if (!torch.is_plain(tensors[i])) return false;
            const char* at = reinterpret_cast<const char*>(tensors[i]) + torch.inner;
            std::memcpy(&pointer, at, sizeof pointer);
            if (!pointer) return false;
            for (int64_t line = 0; line < KEPT; line += LINE)
                __builtin_prefetch(static_cast<const char*>(pointer) + line);
        }
        for (int64_t i = first; i < end; i++) {
            Place place;
            if (inner[i - first] && !find(torch, &inner[i - first], place)) return false;
            if (!use(i, place)) return false;
        }
    }
    return true;
}

// Writes where n tensors of the given counts lie; of types that are expected, if any are. Whether
// each is absent or could be read by its address.
bool locate_all(const Torch& torch, PyObject* const* tensors, int64_t n, const int64_t* counts,
                const int64_t* expected, int64_t* addresses, int64_t* types) {
    return for_each(torch, tensors, n, [&](int64_t i, const Place& place) {
        addresses[i] = reinterpret_cast<intptr_t>(place.data);
        types[i] = place.type;
        if (expected && place.type != expected[i]) return false;
        return place.type == ABSENT ||
               (place.type <= FLOAT16 && place.count == counts[i] && !place.has_gaps());
    });
}

// The number in a tensor of one element, of a type that Python has too; whether it is such.
bool read_number(const Place& place, double& number) {
    const auto as = [&](auto value) {
        std::memcpy(&value, place.data, sizeof value);
        number = static_cast<double>(value);
        return true;
    };
    if (place.count != 1) return false;
    switch (place.type) {
        case FLOAT32: return as(float());
        case FLOAT64: return as(double());
        case INT32: return as(int32_t());
        case INT64: return as(int64_t());
        default: return false;
    }
}

}  // namespace
