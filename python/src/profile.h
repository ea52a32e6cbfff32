/* tenon.profile. */
#ifndef TENON_PYTHON_PROFILE_H
#define TENON_PYTHON_PROFILE_H

#include "core.h"

bool profiles_add(PyObject *module);
/* the profile that runs of this thread are added to; NULL: none */
tenon_profile_t *profile_current(void);

#endif
