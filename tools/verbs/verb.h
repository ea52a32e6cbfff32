/* A verb of the `tenon` command: its texts and its function.  main.c holds the table of them; each
 * verb_NAME.c defines one.  A verb gives an exit code and has said on stderr what went wrong when
 * that is not EXIT_FINE. */
#ifndef TOOLS_VERBS_VERB_H
#define TOOLS_VERBS_VERB_H

enum {
  EXIT_FINE = 0,
  EXIT_FAILED = 1,
  EXIT_USAGE = 2,
};

typedef struct verb_t {
  const char *name;
  const char *usage;   /* what follows `tenon NAME` */
  const char *summary; /* one line, for the list of verbs */
  const char *details; /* paragraphs below the usage, ending in a line break */
  int (*run)(const struct verb_t *verb, int argc, char **argv); /* argv[0] is the verb's name */
} verb_t;

extern const verb_t verb_new, verb_model, verb_bench, verb_watch, verb_build, verb_ops, verb_show,
    verb_run, verb_check, verb_compare, verb_replay, verb_verify, verb_devices, verb_export,
    verb_doctor;

#endif
