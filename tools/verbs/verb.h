/* A verb of the `tenon` command: its help texts and its function. Each file of tools/verbs defines
 * one verb, and main.c holds the table of them. The function returns an exit code; unless that is
 * EXIT_FINE, it has printed the error to stderr. */
#ifndef TOOLS_VERBS_VERB_H
#define TOOLS_VERBS_VERB_H

enum {
  EXIT_FINE = 0,
  EXIT_FAILED = 1,
  EXIT_USAGE = 2,
};

typedef struct verb_t {
  const char *name;
  const char *usage;   /* the part of the usage line after `tenon NAME` */
  const char *summary; /* one line, for the list of verbs */
  const char *details; /* paragraphs below the usage line, separated by line breaks */
  int (*run)(const struct verb_t *verb, int argc, char **argv); /* argv[0] is the verb's name */
} verb_t;

extern const verb_t verb_new, verb_model, verb_bench, verb_watch, verb_build, verb_ops, verb_show,
    verb_run, verb_check, verb_compare, verb_replay, verb_verify, verb_devices, verb_export,
    verb_doctor, verb_convert, verb_compile, verb_pack;

#endif
