// The passes around an optimizer's step, each in one call: all that they need is found here.
//
// Only where everything is as usual, an Adam over plain tensors; else None is returned, nothing has
// happened, and `statistics.py` finds it all one by one.

#pragma once

#include <cmath>
#include <vector>

#include "objects.h"
#include "plan.h"
#include "tensors.h"

namespace {

// The names that an optimizer keeps things under, in the order of `handles.py`.
struct Names {
    PyObject *parameters, *gradient, *first, *second, *step, *epsilon, *betas;

    static bool are(PyObject* tuple) { return PyTuple_Check(tuple) && PyTuple_Size(tuple) == 7; }

    explicit Names(PyObject* tuple)
        : parameters(PyTuple_GetItem(tuple, 0)), gradient(PyTuple_GetItem(tuple, 1)),
          first(PyTuple_GetItem(tuple, 2)), second(PyTuple_GetItem(tuple, 3)),
          step(PyTuple_GetItem(tuple, 4)), epsilon(PyTuple_GetItem(tuple, 5)),
          betas(PyTuple_GetItem(tuple, 6)) {}
};

// Calls `use(group, first, end)` with the places of each group's parameters in the whole list,
// until that says no. Whether these very parameters are in the groups, and it never said no.
template <class Use>
bool for_groups(PyObject* groups, const Held& parameters, PyObject* name, const Use& use) {
    int64_t next = 0;
    if (!PyList_Check(groups)) return false;
    for (Py_ssize_t g = 0; g < PyList_Size(groups); g++) {
        PyObject* group = PyList_GetItem(groups, g);
        if (!PyDict_Check(group)) return false;
        PyObject* found = PyDict_GetItemWithError(group, name);
        if (!found || !PyList_Check(found)) return false;
        const int64_t count = PyList_Size(found), first = next;
        if (first + count > parameters.size()) return false;
        for (int64_t i = 0; i < count; i++, next++)
            if (PyList_GetItem(found, i) != parameters[next]) return false;
        if (!use(group, first, next)) return false;
    }
    return next == parameters.size();
}

// What both passes are given: the parameters as they were when the plan was laid out, and their
// types; the optimizer's groups.
struct Update {
    const Torch& torch;
    const Plan& plan;
    const int64_t* types;
    uint64_t number;
    int64_t threads;
    PyObject* groups;
    Names names;
    Held parameters;

    bool locate(PyObject* const* tensors, Field addresses, Field of_types) const {
        const bool are_parameters = addresses == PARAMETER;
        return locate_all(torch, tensors, plan.count, plan.field<int64_t>(COUNT),
                          are_parameters ? types : nullptr, plan.field<int64_t>(addresses),
                          plan.field<int64_t>(of_types));
    }

    template <class Pass> bool run(const Pass& pass) const {
        int failed;
        Py_BEGIN_ALLOW_THREADS;
        failed = pass(&plan, number, threads);
        Py_END_ALLOW_THREADS;
        if (failed) PyErr_NoMemory();
        return !failed;
    }
};

// The gradients of all parameters after the first pass over them.
template <class Pass> PyObject* before_update(const Update& update, const Pass& pass) {
    const auto any = [](PyObject*, int64_t, int64_t) { return true; };
    const Held& parameters = update.parameters;
    if (parameters.size() != update.plan.count) return nothing();
    if (!for_groups(update.groups, parameters, update.names.parameters, any)) return nothing();
    if (!update.locate(parameters.data(), PARAMETER, PARAMETER_TYPE)) return nothing();
    Held gradients;
    for (int64_t i = 0; i < parameters.size(); i++) {
        PyObject* gradient = PyObject_GetAttr(parameters[i], update.names.gradient);
        if (!gradient) return nullptr;
        gradients.take(gradient);
    }
    if (!update.locate(gradients.data(), GRADIENT, GRADIENT_TYPE)) return nothing();
    if (!update.run(pass)) return nullptr;
    return gradients.list();
}

// Epsilon in units of the second moment's root, for each parameter of a group by its age; false
// where a setting is not a plain number.
bool write_thresholds(PyObject* group, const Names& names, const double* ages, int64_t count,
                      double* thresholds) {
    PyObject* epsilon = PyDict_GetItemWithError(group, names.epsilon);
    PyObject* betas = PyDict_GetItemWithError(group, names.betas);
    if (!epsilon || !PyFloat_Check(epsilon)) return false;
    if (!betas || !PyTuple_Check(betas) || PyTuple_Size(betas) < 2) return false;
    PyObject* beta = PyTuple_GetItem(betas, 1);
    if (!PyFloat_Check(beta)) return false;
    const double size = PyFloat_AsDouble(epsilon), decay = PyFloat_AsDouble(beta);
    for (int64_t i = 0; i < count; i++)
        // Nearly always all are of one age.
        thresholds[i] = i && ages[i] == ages[i - 1] ? thresholds[i - 1]
            : ages[i] > 0 ? size * std::sqrt(1 - std::pow(decay, ages[i])) : size;
    return true;
}

// What the second pass found, row by row, and the ages of all parameters, both as bytes.
template <class Pass>
PyObject* after_update(const Update& update, PyObject* state, const Pass& pass) {
    const int64_t n = update.plan.count;
    const Names& names = update.names;
    if (!PyDict_Check(state) || PyDict_Size(state) != n || update.parameters.size() != n)
        return nothing();
    std::vector<PyObject*> entries;
    Py_ssize_t at = 0;
    for (PyObject *key, *entry; PyDict_Next(state, &at, &key, &entry);) {
        if (key != update.parameters[static_cast<int64_t>(entries.size())]) return nothing();
        __builtin_prefetch(entry);
        entries.push_back(entry);
    }
    Held first, second, steps;
    for (PyObject* entry : entries) {
        if (!PyDict_Check(entry)) return nothing();
        const auto keep = [&](PyObject* name, Held& held) {
            PyObject* value = PyDict_GetItemWithError(entry, name);
            if (!value || !update.torch.is_plain(value)) return false;
            held.add(value);
            return true;
        };
        if (!keep(names.first, first) || !keep(names.second, second) || !keep(names.step, steps))
            return nothing();
    }
    std::vector<double> ages(n);
    const auto read = [&](int64_t i, const Place& place) { return read_number(place, ages[i]); };
    if (!for_each(update.torch, steps.data(), n, read)) return nothing();
    double* thresholds = update.plan.field<double>(THRESHOLD);
    const auto write = [&](PyObject* group, int64_t from, int64_t to) {
        return write_thresholds(group, names, &ages[from], to - from, thresholds + from);
    };
    if (!for_groups(update.groups, update.parameters, names.parameters, write)) return nothing();
    if (!update.locate(update.parameters.data(), PARAMETER, PARAMETER_TYPE) ||
        !update.locate(first.data(), FIRST, FIRST_TYPE) ||
        !update.locate(second.data(), SECOND, SECOND_TYPE))
        return nothing();
    if (!update.run(pass)) return nullptr;
    const auto bytes = [](const double* numbers, int64_t count) {
        return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(numbers), 8 * count);
    };
    PyObject* results = bytes(update.plan.results, n * update.plan.columns);
    PyObject* of_ages = bytes(ages.data(), n);
    return Py_BuildValue("(NN)", results, of_ages);
}

}  // namespace
