/* tenon/tenon.h: the interface of libtenon for applications, language bindings and tools.
 *
 * This header includes the headers in tenon/api, one for each subject.  They are in a folder of
 * their own because tenon/device.h, tenon/graph.h and so on are the contracts that libraries
 * implement, whereas tenon/api/devices.h and tenon/api/graphs.h declare functions that libtenon
 * exports.  A program includes tenon/tenon.h; each part also compiles by itself.
 *
 * Rules of this interface:
 *   Errors      Every function that can fail returns a tenon_status_t.  tenon_error() returns the
 *               message of the last failure in this thread.
 *   Ownership   Functions named create, load and retain return a reference, which the caller
 *               releases.  Functions named get, and accessors, lend.  release(NULL) has no effect.
 *   Threads     Any thread may call any function, unless its comment says otherwise.  The first
 *               call starts the runtime.  The child of a fork may call everything
 *               (docs/dispatch.md).
 *   Structures  Structures that the caller fills in start with their size.  Zero selects the
 *               default. */
#ifndef TENON_TENON_H
#define TENON_TENON_H

/* clang-format off */
#include <tenon/graph.h>
#include <tenon/op.h>

#include <tenon/api/export.h>       /* TENON_API */
#include <tenon/api/runtime.h>      /* errors, start and shutdown, threads, cancellation */
#include <tenon/api/libraries.h>    /* loading, isolation, reload, policy, libraries from source */
#include <tenon/api/operators.h>    /* finding operators, their declarations, attributes */
#include <tenon/api/tensors.h>      /* dtypes, tensors in host memory, files, DLPack */
#include <tenon/api/calls.h>        /* calling operators */
#include <tenon/api/devices.h>      /* devices, streams, memory, tensors on devices */
#include <tenon/api/external.h>     /* memory of other frameworks, allocators, DLPack on devices */
#include <tenon/api/random.h>       /* generators of random numbers */
#include <tenon/api/registration.h> /* operators, kernels and fallbacks of a program */
#include <tenon/api/dispatch.h>     /* keys, layers, modes, precision, mixed devices */
#include <tenon/api/inspection.h>   /* dispatch tables, traces, explanations */
#include <tenon/api/shapes.h>       /* inference without data */
#include <tenon/api/gradients.h>    /* automatic differentiation */
#include <tenon/api/debugging.h>    /* saved calls, crash reports, NaN */
#include <tenon/api/graphs.h>       /* reading, building and transforming graphs */
#include <tenon/api/executables.h>  /* compiling and running graphs, profiles */
/* clang-format on */

#endif
