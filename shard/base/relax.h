#pragma once

#include <thread>

namespace penstock {

// Tells the processor that this is a spin loop.
inline void RelaxProcessor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#else
  std::this_thread::yield();
#endif
}

}  // namespace penstock
