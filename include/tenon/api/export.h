/* tenon/api/export.h: TENON_API marks the functions that libtenon exports.  Part of
 * tenon/tenon.h. */
#ifndef TENON_API_EXPORT_H
#define TENON_API_EXPORT_H

#include <tenon/op.h>

#if defined(_WIN32)
#define TENON_API __declspec(dllimport)
#else
#define TENON_API __attribute__((visibility("default")))
#endif

#endif
