#pragma once

#include <pthread.h>

#include <string>

namespace penstock {

// Names the calling thread for `top -H`, debuggers and /proc. The system keeps 15 characters.
// Threads that it starts inherit the name.
inline void NameThread(const std::string& name) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
}

}  // namespace penstock
