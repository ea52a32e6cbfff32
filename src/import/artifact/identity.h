/* What a compiled graph in an artifact depends on. */
#ifndef TN_IMPORT_ARTIFACT_IDENTITY_H
#define TN_IMPORT_ARTIFACT_IDENTITY_H

#include "base/text.h"
#include "base/thread.h"

/* Appends one line for each thing that a compiled graph depends on. */
tenon_status_t tn_artifact_identify(tn_text_t *text);
/* The mutex that guards the identity that was printed last, for a fork. */
tn_mutex_t *tn_artifacts_mutex(void);

#endif
