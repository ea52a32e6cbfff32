// A library without operators, as MXNet's example of the same name, written for this test.
#include "lib_api.h"
#if VERSION != 7
using namespace mxnet::ext;
#endif

MXReturnValue initialize(int version) { return version >= 10400 ? MX_SUCCESS : MX_FAIL; }
