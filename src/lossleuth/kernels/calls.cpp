// The functions that every step calls, as functions of Python itself, and where tensors lie.
//
// After a backward pass a call through ctypes costs 14 us, one of these 2. Where a tensor lies is
// asked of the C interface that torch keeps stable for compiled models, in one call for a list;
// its functions are looked up by `handles.py`, and nothing here knows torch's classes. Compiled
// only where Python's headers are; its own interface is the one that is stable from 3.11 on.

#ifdef LOSSLEUTH_PYTHON

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>

#include <cstdint>
#include <cstring>

#include "dispatch.h"
#include "formats.h"

extern "C" {
int lossleuth_before(const void* plan, uint64_t number, int64_t threads);
int lossleuth_after(const void* plan, uint64_t number, int64_t threads);
void lossleuth_fingerprint(const void*, int64_t, int64_t, int64_t, int64_t, int64_t*);
int64_t lossleuth_others(const void*, int64_t, int64_t, int64_t, int64_t, int64_t);
int64_t lossleuth_supervised(const int64_t*, const uint8_t*, int64_t, int64_t, int64_t, int64_t*);
int lossleuth_cross_entropy(const void* problem, int64_t threads, double* sum);
int lossleuth_divergence(const void* problem, int64_t threads, double* sum);
}

namespace {

using Handle = void*;
using Failed = int32_t;  // not 0 when torch refuses; it is asked nothing that it would refuse

// What `handles.py` hands over: objects of Python, addresses of functions, numbers of torch's.
struct Torch {
    PyObject* make_handles;         // capsules from a list of tensors
    PyTypeObject* plain[2];         // subclasses of these may keep their values anywhere
    Failed (*release)(Handle);
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
};

// After the types of `formats.h`.
constexpr int64_t INT32 = 5, INT64 = 6;
constexpr int64_t BYTES[] = {0, 4, 8, 2, 2, 4, 8};

// A tensor without gaps in this machine's memory.
struct Place {
    const char* data;
    int64_t type, count;
};

bool find(const Torch& torch, Handle handle, Place& place) {
    int32_t device, layout, dtype;
    int64_t dim, bytes, offset;
    const int64_t *sizes, *strides;
    if (torch.device_type(handle, &device) || device != torch.processor) return false;
    if (torch.layout(handle, &layout) || layout != torch.strided) return false;
    if (torch.dtype(handle, &dtype)) return false;
    place.type = 0;
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
    if (!whole && place.count) return false;
    if (torch.storage_size(handle, &bytes) || torch.storage_offset(handle, &offset)) return false;
    // Its memory may have been given back.
    if (place.count && (offset + place.count) * BYTES[place.type] > bytes) return false;
    return !torch.data_ptr(handle, &place.data);
}

// Calls `use(i, place)` for each tensor of a list until that says no; whether all were plain
// memory and `use` never said no. -1 with an exception set when Python itself failed.
template <class Use> int for_each(const Torch& torch, PyObject* tensors, const Use& use) {
    const Py_ssize_t n = PyList_Size(tensors);
    if (n < 0) return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyTypeObject* type = Py_TYPE(PyList_GetItem(tensors, i));
        if (type != torch.plain[0] && type != torch.plain[1]) return 0;
    }
    PyObject* capsules = PyObject_CallFunctionObjArgs(torch.make_handles, tensors, nullptr);
    if (!capsules) return -1;
    int found = PyList_Size(capsules) == n;
    for (Py_ssize_t i = 0; i < PyList_Size(capsules); i++) {
        const Handle handle = PyCapsule_GetPointer(PyList_GetItem(capsules, i), nullptr);
        Place place;
        found = found && find(torch, handle, place) && use(i, place);
        torch.release(handle);
    }
    Py_DecRef(capsules);
    return found;
}

double number_at(const char* data, int64_t type) {
    const auto as = [data](auto value) {
        std::memcpy(&value, data, sizeof value);
        return static_cast<double>(value);
    };
    return type == FLOAT32 ? as(float()) : type == FLOAT64 ? as(double())
         : type == INT32 ? as(int32_t()) : as(int64_t());
}

// What Python hands over: whole numbers, addresses among them, and perhaps a list.
struct Given {
    int64_t number[6];
    PyObject* list;

    template <class T> T* address(int index) const {
        return reinterpret_cast<T*>(static_cast<intptr_t>(number[index]));
    }
};

// Where tensors of the given counts lie: the addresses of four lists, of counts, types expected (or
// 0), addresses and types. Whether each tensor could be read by its address.
PyObject* locate(const Given& given) {
    const Torch& torch = *given.address<const Torch>(0);
    const int64_t* counts = given.address<const int64_t>(1);
    const int64_t* expected = given.address<const int64_t>(2);
    int64_t *addresses = given.address<int64_t>(3), *types = given.address<int64_t>(4);
    const int found = for_each(torch, given.list, [&](int64_t i, const Place& place) {
        addresses[i] = reinterpret_cast<intptr_t>(place.data);
        types[i] = place.type;
        return place.type <= FLOAT16 && place.count == counts[i] &&
               (!expected || place.type == expected[i]);
    });
    return found < 0 ? nullptr : PyBool_FromLong(found);
}

// A list of the numbers in tensors of one element each, or None.
PyObject* numbers(const Given& given) {
    PyObject* list = PyList_New(PyList_Size(given.list));
    if (!list) return nullptr;
    const Torch& torch = *given.address<const Torch>(0);
    const int found = for_each(torch, given.list, [&](int64_t i, const Place& p) {
        if (p.count != 1 || p.type == BFLOAT16 || p.type == FLOAT16) return false;
        return !PyList_SetItem(list, i, PyFloat_FromDouble(number_at(p.data, p.type)));
    });
    if (found == 1) return list;
    Py_DecRef(list);
    if (found < 0) return nullptr;
    Py_IncRef(Py_None);
    return Py_None;
}

// Writes a list of numbers to an address that has room for them.
PyObject* put(const Given& given) {
    double* to = given.address<double>(0);
    const Py_ssize_t n = PyList_Size(given.list);
    for (Py_ssize_t i = 0; i < n; i++) to[i] = PyFloat_AsDouble(PyList_GetItem(given.list, i));
    return PyErr_Occurred() ? nullptr : PyBool_FromLong(1);
}

template <int (*PASS)(const void*, uint64_t, int64_t)> PyObject* pass(const Given& given) {
    int failed;
    Py_BEGIN_ALLOW_THREADS;
    failed = PASS(given.address<const void>(0), static_cast<uint64_t>(given.number[1]),
                  given.number[2]);
    Py_END_ALLOW_THREADS;
    return PyLong_FromLong(failed);
}

PyObject* fingerprint(const Given& given) {
    const int64_t* x = given.number;
    int64_t out[4];
    lossleuth_fingerprint(given.address<const void>(0), x[1], x[2], x[3], x[4], out);
    return Py_BuildValue("(KLLL)", static_cast<unsigned long long>(out[0]),
                         static_cast<long long>(out[1]), static_cast<long long>(out[2]),
                         static_cast<long long>(out[3]));
}

PyObject* others(const Given& given) {
    const int64_t* x = given.number;
    return PyLong_FromLongLong(
        lossleuth_others(given.address<const void>(0), x[1], x[2], x[3], x[4], x[5]));
}

PyObject* supervised(const Given& given) {
    const int64_t* x = given.number;
    int64_t count = 0;
    const int64_t wrong = lossleuth_supervised(given.address<const int64_t>(0),
                                               given.address<const uint8_t>(1), x[2], x[3], x[4],
                                               &count);
    return Py_BuildValue("(LL)", static_cast<long long>(wrong), static_cast<long long>(count));
}

template <int (*LOSS)(const void*, int64_t, double*)> PyObject* loss(const Given& given) {
    int failed;
    double sum = 0;
    Py_BEGIN_ALLOW_THREADS;
    failed = LOSS(given.address<const void>(0), given.number[1], &sum);
    Py_END_ALLOW_THREADS;
    return Py_BuildValue("(id)", failed, sum);
}

// A function of Python with COUNT whole numbers as arguments, and a list behind them on request.
template <PyObject* (*CALL)(const Given&), int COUNT, bool LIST>
PyObject* method(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
    if (count != COUNT + LIST)
        return PyErr_Format(PyExc_TypeError, "%zd arguments", count);
    Given given{};
    for (int i = 0; i < COUNT; i++) given.number[i] = PyLong_AsLongLong(arguments[i]);
    if (LIST) given.list = arguments[COUNT];
    if (PyErr_Occurred()) return nullptr;
    if (LIST && !PyList_Check(given.list))
        return PyErr_Format(PyExc_TypeError, "a list was expected");
    return CALL(given);
}

template <PyObject* (*CALL)(const Given&), int COUNT, bool LIST = false>
PyMethodDef named(const char* name) {
    const auto function = &method<CALL, COUNT, LIST>;
    return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)),
            METH_FASTCALL, nullptr};
}

PyMethodDef METHODS[] = {
    named<locate, 5, true>("locate"),
    named<numbers, 1, true>("numbers"),
    named<put, 1, true>("put"),
    named<pass<lossleuth_before>, 3>("before"),
    named<pass<lossleuth_after>, 3>("after"),
    named<fingerprint, 5>("fingerprint"),
    named<others, 6>("others"),
    named<supervised, 5>("supervised"),
    named<loss<lossleuth_cross_entropy>, 2>("cross_entropy"),
    named<loss<lossleuth_divergence>, 2>("divergence"),
    {},
};

PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "lossleuth_calls", nullptr, 0, METHODS,
                      nullptr, nullptr, nullptr, nullptr};

}  // namespace

EXPORTED PyObject* PyInit_lossleuth_calls() { return PyModuleDef_Init(&MODULE); }

#endif
