// A library without operators: what the example of that name in MXNet's source tree is, written for
// this test.
#include "lib_api.h"
#if VERSION != 7
using namespace mxnet::ext;
#endif

MXReturnValue initialize(int version) { return version >= 10400 ? MX_SUCCESS : MX_FAIL; }
