#include "guard.h"

#include <cstdio>
#include <exception>
#include <stdexcept>

extern "C" int guard_call(int (*function)(void *), void *argument, char *why, size_t capacity) {
  try {
    return function(argument);
  } catch (const std::exception &e) {
    std::snprintf(why, capacity, "it throws an exception: %s", e.what());
  } catch (...) {
    std::snprintf(why, capacity, "it throws an exception that is no std::exception");
  }
  return -1;
}

extern "C" void guard_throw(const char *why) { throw std::runtime_error(why); }
