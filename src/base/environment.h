/* Environment variables. All of src/ calls these functions instead of getenv. */
#ifndef TN_BASE_ENVIRONMENT_H
#define TN_BASE_ENVIRONMENT_H

/* The value of a variable, or NULL if the variable is not set. Also NULL for every variable if this
 * process runs with more rights than the user who started it (set-uid, set-gid, file
 * capabilities). */
const char *tn_environment(const char *name);
/* The environment for programs that this process starts: its own environment, or a minimal one if
 * the process runs with elevated rights. */
char **tn_environment_of_children(void);
/* The environment for a program that runs code of strangers: what the dynamic linker, the C
 * library, the language runtimes and Tenon read, and the variables that TENON_ISOLATION_KEEP names.
 * Those of dumps, traces and crash reports are left out, which this process makes. The caller
 * releases the array, and not its strings. NULL: out of memory. */
char **tn_environment_of_strangers(void);

#endif
