// Objects of Python.

#pragma once

#include <cstdint>
#include <vector>

namespace {

// None, or what Python has to complain about.
PyObject* nothing() {
    if (PyErr_Occurred()) return nullptr;
    Py_IncRef(Py_None);
    return Py_None;
}

// References to objects, given back at the end.
class Held {
  public:
    Held() = default;
    explicit Held(PyObject* list) {
        const Py_ssize_t n = PyList_Size(list);
        objects.reserve(n);
        for (Py_ssize_t i = 0; i < n; i++) add(PyList_GetItem(list, i));
    }
    Held(const Held&) = delete;
    ~Held() {
        for (PyObject* object : objects) Py_DecRef(object);
    }
    // One that is ours already.
    void take(PyObject* object) { objects.push_back(object); }
    void add(PyObject* object) {
        Py_IncRef(object);
        take(object);
    }
    PyObject* list() const {
        PyObject* made = PyList_New(size());
        for (int64_t i = 0; made && i < size(); i++) {
            Py_IncRef(objects[i]);
            PyList_SetItem(made, i, objects[i]);
        }
        return made;
    }
    int64_t size() const { return static_cast<int64_t>(objects.size()); }
    PyObject* const* data() const { return objects.data(); }
    PyObject* operator[](int64_t i) const { return objects[i]; }

  private:
    std::vector<PyObject*> objects;
};

}  // namespace
