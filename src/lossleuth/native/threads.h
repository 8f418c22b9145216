// Work shared among threads.

#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <system_error>
#include <thread>
#include <vector>

namespace {

// How a compiler's own code enters a parallel region of OpenMP.
using EnterParallel = void (*)(void (*)(void*), void*, unsigned threads, unsigned flags);

// Null until torch is loaded. Looked for until it is found, since every library is asked.
inline EnterParallel enter_parallel() {
    static std::atomic<EnterParallel> found{nullptr};
    if (!found) found = reinterpret_cast<EnterParallel>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
    return found;
}

// Share `count` jobs among threads: those of torch, since they wait for work by spinning and would
// compete with any of ours; where torch has none, threads that live for this call. A thread takes
// `batch` jobs at once, and calls `job(which, worker)` with its own number below `threads`.
template <class Job>
void share(int64_t count, int64_t batch, int64_t threads, const Job& job) {
    std::atomic<int64_t> next{0}, workers{0};
    const auto work = [&]() noexcept {
        const int64_t worker = workers.fetch_add(1);
        for (int64_t i; (i = next.fetch_add(batch)) < count;)
            for (int64_t end = std::min(i + batch, count); i < end; i++) job(i, worker);
    };
    using Work = decltype(work);
    if (count <= batch || threads < 2) return work();
    if (const EnterParallel enter = enter_parallel()) {
        const auto run = [](void* given) { (*static_cast<Work*>(given))(); };
        return enter(run, const_cast<void*>(static_cast<const void*>(&work)),
                     static_cast<unsigned>(threads), 0);
    }
    std::vector<std::thread> others;
    try {
        while (static_cast<int64_t>(others.size()) + 1 < threads) others.emplace_back(work);
    } catch (const std::system_error&) {  // no more threads to be had: fewer do it
    }
    work();
    for (std::thread& other : others) other.join();
}

}  // namespace
