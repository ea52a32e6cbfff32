// Exceptions for faults.c, which is C.
#include <stdexcept>

extern "C" void *throw_text() { throw std::runtime_error("thrown by the library"); }
extern "C" void *throw_number() { throw 7; }
