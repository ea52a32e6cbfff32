/* Decides which files may be loaded: by the rules of the process, and by the rules that the flags
 * of one load add. Used by loading and by the reports. */
#ifndef TN_LOADER_POLICY_H
#define TN_LOADER_POLICY_H

#include <tenon/tenon.h>

#include "loader/binary.h"

/* Appends a line for each rule that the file violates: the rule, who set it, what was found, what
 * to do. `path` has no links; `flags` are those of tenon_library_load. If *out_is_copied is set,
 * the copy must be opened in place of the file, because its hash was accepted and other users could
 * change the file. Fails if the rules cannot be read. */
tenon_status_t tn_policy_check(const char *path, const tn_file_t *file, const tn_binary_t *binary,
                               uint32_t flags, bool *out_is_copied, tn_text_t *offences);
bool tn_policy_has_hashes(void); /* a file is then copied before it is read */
/* Adds "folders /a, /b; private; 3 SHA-256 (TENON_POLICY=/x)", "none", or why the rules cannot be
 * read. */
void tn_policy_report(tn_text_t *text);
void tn_policy_forget(void); /* at shutdown: the next load reads the files again */

/* path of the machine's rules, /etc/tenon/policy; tests set another path */
extern const char *tn_policy_file;

#endif
