// The functions that every step calls, as functions of Python itself.
//
// After a backward pass a call through ctypes costs 14 us, one of these 2. Compiled only where
// Python's headers are; its interface is the one that is stable from 3.11 on.

#ifdef LOSSLEUTH_PYTHON

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>

#include <cstdint>
#include <exception>

#include "dispatch.h"
#include "objects.h"
#include "tensors.h"
#include "updates.h"

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

// What Python hands over: whole numbers, addresses among them, and objects behind them.
struct Given {
    int64_t number[6];
    PyObject* object[4];

    template <class T> T* address(int index) const {
        return reinterpret_cast<T*>(static_cast<intptr_t>(number[index]));
    }
    const Torch& torch() const { return *address<const Torch>(0); }
};

// Where tensors of the given counts lie: the addresses of four lists, of counts, types expected (or
// 0), addresses and types. Whether each tensor could be read by its address or is None.
PyObject* locate(const Given& given) {
    const Held tensors(given.object[0]);
    return PyBool_FromLong(locate_all(given.torch(), tensors.data(), tensors.size(),
                                      given.address<const int64_t>(1),
                                      given.address<const int64_t>(2), given.address<int64_t>(3),
                                      given.address<int64_t>(4)));
}

// A list of the numbers in tensors of one element each, or None.
PyObject* numbers(const Given& given) {
    const Held tensors(given.object[0]);
    std::vector<double> found(tensors.size());
    const auto read = [&](int64_t i, const Place& place) { return read_number(place, found[i]); };
    if (!for_each(given.torch(), tensors.data(), tensors.size(), read)) return nothing();
    PyObject* list = PyList_New(tensors.size());
    for (int64_t i = 0; list && i < tensors.size(); i++)
        PyList_SetItem(list, i, PyFloat_FromDouble(found[i]));
    return list;
}

// Writes a list of numbers to an address that has room for them.
PyObject* put(const Given& given) {
    double* to = given.address<double>(0);
    PyObject* list = given.object[0];
    const Py_ssize_t n = PyList_Size(list);
    for (Py_ssize_t i = 0; i < n; i++) to[i] = PyFloat_AsDouble(PyList_GetItem(list, i));
    return PyErr_Occurred() ? nullptr : PyBool_FromLong(1);
}

// An optimizer's update, with the parameters, the groups and the names that Python hands over.
Update update_of(const Given& given, PyObject* names) {
    return {given.torch(), *given.address<const Plan>(1), given.address<const int64_t>(2),
            static_cast<uint64_t>(given.number[3]), given.number[4], given.object[1],
            Names(names), Held(given.object[0])};
}

PyObject* before_step(const Given& given) {
    return before_update(update_of(given, given.object[2]), lossleuth_before);
}

PyObject* after_step(const Given& given) {
    return after_update(update_of(given, given.object[3]), given.object[2], lossleuth_after);
}

template <int (*PASS)(const void*, uint64_t, int64_t)> PyObject* pass(const Given& given) {
    int failed;
    Py_BEGIN_ALLOW_THREADS;
    failed = PASS(given.address<const void>(0), static_cast<uint64_t>(given.number[1]),
                  given.number[2]);
    Py_END_ALLOW_THREADS;
    return PyLong_FromLong(failed);
}

PyObject* fingerprint_at(const char* data, int64_t bytes, int64_t rows, int64_t width,
                         int64_t stride) {
    int64_t out[4];
    lossleuth_fingerprint(data, bytes, rows, width, stride, out);
    return Py_BuildValue("(KLLLO)", static_cast<unsigned long long>(out[0]),
                         static_cast<long long>(rows * width), static_cast<long long>(out[1]),
                         static_cast<long long>(out[2]), out[3] ? Py_True : Py_False);
}

PyObject* fingerprint(const Given& given) {
    const int64_t* x = given.number;
    return fingerprint_at(given.address<const char>(0), x[1], x[2], x[3], x[4]);
}

PyObject* others(const Given& given) {
    const int64_t* x = given.number;
    return PyLong_FromLongLong(
        lossleuth_others(given.address<const void>(0), x[1], x[2], x[3], x[4], x[5]));
}

// A tensor of at least one whole number; false if it is not such.
bool find_tokens(const Given& given, Place& found) {
    return for_each(given.torch(), given.object, 1, [&](int64_t, const Place& place) {
        found = place;
        return place.type >= INT32 && place.count > 0;
    });
}

// As `fingerprint` and `others`, of a tensor; None if it has to be looked at in Python.
PyObject* fingerprint_of(const Given& given) {
    Place p;
    if (!find_tokens(given, p)) return nothing();
    return fingerprint_at(p.data, BYTES[p.type], p.rows, p.width, p.stride);
}

PyObject* others_of(const Given& given) {
    Place p;
    if (!find_tokens(given, p)) return nothing();
    return PyLong_FromLongLong(
        lossleuth_others(p.data, BYTES[p.type], p.rows, p.width, p.stride, given.number[1]));
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

// Whether an object is of the kind that a letter stands for.
bool is_of(char kind, PyObject* object) {
    return kind == 'L' ? PyList_Check(object) : kind == 'N' ? Names::are(object) : true;
}

// As CALL, of tensors that lie in memory; None where they may not.
template <PyObject* (*CALL)(const Given&)> PyObject* outside(const Given& given) {
    return given.torch().is_inside_transform() ? nothing() : CALL(given);
}

// A function of Python with COUNT whole numbers as arguments, and objects of these kinds.
template <PyObject* (*CALL)(const Given&), int COUNT, char... KINDS>
PyObject* method(PyObject*, PyObject* const* arguments, Py_ssize_t count) try {
    if (count != COUNT + static_cast<int>(sizeof...(KINDS)))
        return PyErr_Format(PyExc_TypeError, "%zd arguments", count);
    Given given{};
    for (int i = 0; i < COUNT; i++) given.number[i] = PyLong_AsLongLong(arguments[i]);
    if (PyErr_Occurred()) return nullptr;
    int next = 0;
    for (char kind : std::initializer_list<char>{KINDS...}) {
        given.object[next] = arguments[COUNT + next];
        if (!is_of(kind, given.object[next++]))
            return PyErr_Format(PyExc_TypeError, "argument %d is of a wrong type", COUNT + next);
    }
    return CALL(given);
} catch (const std::exception&) {  // there is no other than that
    return PyErr_NoMemory();
}

template <PyObject* (*CALL)(const Given&), int COUNT, char... KINDS>
PyMethodDef named(const char* name) {
    const auto function = &method<CALL, COUNT, KINDS...>;
    return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)),
            METH_FASTCALL, nullptr};
}

PyMethodDef METHODS[] = {
    named<outside<locate>, 5, 'L'>("locate"),
    named<outside<numbers>, 1, 'L'>("numbers"),
    named<outside<before_step>, 5, 'L', '*', 'N'>("before_step"),
    named<outside<after_step>, 5, 'L', '*', '*', 'N'>("after_step"),
    named<outside<fingerprint_of>, 1, '*'>("fingerprint_of"),
    named<outside<others_of>, 2, '*'>("others_of"),
    named<put, 1, 'L'>("put"),
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
