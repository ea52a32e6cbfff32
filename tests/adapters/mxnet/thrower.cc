// Exceptions for faulty.h, which is C.
#include <stdexcept>

extern "C" int throw_text() { throw std::runtime_error("thrown by the library"); }
extern "C" int throw_number() { throw 7; }
