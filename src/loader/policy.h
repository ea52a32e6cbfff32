/* Which files may be loaded: the rules of the process, and those that the flags of one loading add.
 * Called by loading and by the reports. */
#ifndef TN_LOADER_POLICY_H
#define TN_LOADER_POLICY_H

#include <tenon/tenon.h>

#include "loader/binary.h"

/* Adds an offence for each rule that the file breaks: which rule, who set it, what was found, what
 * to do.  `path` has no links; `flags` are of tenon_library_load.  *out_is_copied: the copy must be
 * opened in its place, because its hash was accepted and others could change the file.  Fails where
 * the rules cannot be read. */
tenon_status_t tn_policy_check(const char *path, const tn_file_t *file, const tn_binary_t *binary,
                               uint32_t flags, bool *out_is_copied, tn_text_t *offences);
bool tn_policy_has_hashes(void); /* then a file is copied before it is read */
/* "folders /a, /b; private; 3 hashes (TENON_POLICY=/x)", "none", or what is wrong with them. */
void tn_policy_report(tn_text_t *text);
void tn_policy_forget(void); /* at shutdown: files are read again */

extern const char *tn_policy_file; /* of the machine: /etc/tenon/policy; tests set another */

#endif
