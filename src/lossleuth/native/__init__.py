"""The native library: loading it, and passes over tensors in C++."""
