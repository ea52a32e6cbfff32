/* The environment, for those who may use it.  Called by all of src/ in place of getenv. */
#ifndef TN_BASE_ENVIRONMENT_H
#define TN_BASE_ENVIRONMENT_H

/* The value of a variable; NULL: it is not set, or this process has more rights than who started it
 * (set-uid, set-gid, file capabilities): then no variable counts, whatever it names. */
const char *tn_environment(const char *name);
/* What programs that this process starts find: its own environment, or in such a process a plain
 * one. */
char **tn_environment_of_children(void);

#endif
