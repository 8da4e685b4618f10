// A thread pool.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace mtkit {

// Threads besides the caller's own. A process has one pool, for one caller at a time; a forked
// process, which has none of its parent's threads, starts its own.
class Threads {
 public:
  const pid_t owner = getpid();

  // Calls `work` with every number below `num_parts`; returns when all are done. An exception is
  // rethrown here, and calls that haven't begun are skipped.
  void run(int num_threads, int64_t num_parts, const std::function<void(int64_t)>& work) {
    std::lock_guard<std::mutex> one_caller(callers_);
    {
      std::lock_guard<std::mutex> guard(mutex_);
      try {
        while (int(threads_.size()) < num_threads - 1) threads_.emplace_back([this] { wait(); });
      } catch (const std::system_error&) {
        // No more threads allowed by the system.
      }
      work_ = &work;
      num_parts_ = num_parts;
      num_wanted_ = num_threads - 1;
      next_ = 0;
      thrown_ = nullptr;
    }
    begun_.notify_all();
    take_parts(work);
    std::unique_lock<std::mutex> guard(mutex_);
    // Threads that come late find nothing to do.
    num_wanted_ = 0;
    done_.wait(guard, [this] { return num_working_ == 0; });
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  void take_parts(const std::function<void(int64_t)>& work) {
    for (int64_t part = next_++; part < num_parts_; part = next_++) {
      try {
        work(part);
      } catch (...) {
        std::lock_guard<std::mutex> guard(thrown_mutex_);
        thrown_ = std::current_exception();
        next_ = num_parts_;
      }
    }
  }

  void wait() {
    std::unique_lock<std::mutex> guard(mutex_);
    for (;;) {
      begun_.wait(guard, [&] { return num_wanted_ > 0; });
      const std::function<void(int64_t)>& work = *work_;
      --num_wanted_;
      ++num_working_;
      guard.unlock();
      take_parts(work);
      guard.lock();
      if (--num_working_ == 0) done_.notify_one();
    }
  }

  std::mutex callers_, mutex_, thrown_mutex_;
  std::exception_ptr thrown_;
  std::condition_variable begun_, done_;
  std::vector<std::thread> threads_;
  const std::function<void(int64_t)>* work_ = nullptr;
  int64_t num_parts_ = 0;
  std::atomic<int64_t> next_{0};
  int num_wanted_ = 0, num_working_ = 0;
};

// Calls `work` with every number below `num_parts`, in several threads if there are any.
inline void share(int num_threads, int64_t num_parts, const std::function<void(int64_t)>& work) {
  if (num_threads < 2 || num_parts < 2) {
    for (int64_t part = 0; part < num_parts; ++part) work(part);
    return;
  }
  // Never deleted: its threads wait until the process ends. No lock: a fork would leave it
  // locked.
  static std::atomic<Threads*> of_process{nullptr};
  Threads* found = of_process;
  if (found == nullptr || found->owner != getpid()) {
    auto made = std::make_unique<Threads>();
    if (of_process.compare_exchange_strong(found, made.get())) found = made.release();
  }
  found->run(num_threads, num_parts, work);
}

}  // namespace mtkit
