/* Checks recorded calls, which are folders (docs/debugging.md) that TENON_RECORD or `python -m
 * tenon check --with` saved; and saves the example calls of an operator, so that another program
 * can compute the results. */
#include "recorded.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "run.h"

/* Opens a recorded call as an example; the recording owns its contents. */
static bool open_call(const subject_t *subject, const char *folder, const char *label,
                      tenon_recording_t *recording, tenon_attrs_t **attrs, example_t *t) {
  tenon_recording_info_t info = {.size = sizeof info};
  memset(t, 0, sizeof *t);
  tenon_recording_info(recording, &info);
  t->subject = subject;
  t->op = subject->op;
  t->seed = options.seed;
  snprintf(t->label, sizeof t->label, "%s", label);
  doing(t, NULL, folder);
  if (info.input_count != (int32_t)subject->op->input_count) {
    finding(t, "recorded.reads", "a recorded call has the inputs of the operator's schema",
            "record the call again", "%s has %d inputs, the schema has %u", folder,
            (int)info.input_count, subject->op->input_count);
    return false;
  }
  if (tenon_recording_attrs(recording, subject->op, attrs) != TENON_OK ||
      tenon_attrs_values(*attrs, &t->attrs) != TENON_OK) {
    finding(t, "recorded.reads", "a recorded call has attributes of the operator's schema",
            "record the call again", "%s", tenon_error());
    return false;
  }
  for (uint32_t i = 0; i < subject->op->input_count; i++)
    t->inputs[i] = info.inputs[i] ? tensor_dense(info.inputs[i]) : NULL;
  return true;
}

/* Compares with the expected results that the folder contains. */
static void compare_with_recording(const example_t *t, const tenon_recording_info_t *info,
                                   const ran_t *ran, const char *what) {
  for (int32_t o = 0; o < info->output_count && o < (int32_t)t->op->output_count; o++) {
    if (!info->outputs[o]) continue;
    tenon_tensor_t *expected = tensor_dense(info->outputs[o]);
    const char *differs =
        tensor_differs(t->op->schema.outputs[o].name, expected, ran->outputs[o], 4);
    if (differs)
      finding(t, NULL, what, "compare with the program that produced the results in the folder",
              "%s", differs);
    tenon_tensor_release(expected);
  }
}

static void try_call(example_t *t, const tenon_recording_info_t *info) {
  static const way_t ways[] = {
      {.place = AT_HEAP},
      {.provides_outputs = true, .place = AT_TAIL, .poison = 0x55, .crash_id = "strides.unaligned"},
      {.provides_outputs = true, .place = AT_HEAD, .poison = 0xAA},
      {.layout = LAYOUT_GAPS},
      {.layout = LAYOUT_REVERSED},
      {.layout = LAYOUT_UNALIGNED}};
  bool is_pure = subject_is_pure(t->subject) && !(t->op->traits & TENON_RANDOM);
  for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
    ran_t ran;
    run_way(t, &ways[w], &ran);
    if (info->status == TENON_OK && ran.status != TENON_OK)
      finding(t, NULL, "a call that succeeded when it was recorded succeeds",
              "compare the two versions of the library", "the call fails: %s", ran.error);
    else if (ran.status == TENON_OK && is_pure)
      compare_with_recording(
          t, info, &ran,
          w ? "a recorded call returns the same results whatever the memory layout of its arguments"
            : "a recorded call returns the results in the folder");
    ran_free(&ran);
    if (has_findings() || ran.status != TENON_OK) return;
  }
}

static void try_folder(const subject_t *subject, const char *folder, const char *label) {
  tenon_recording_t *recording = NULL;
  tenon_recording_info_t info = {.size = sizeof info};
  tenon_attrs_t *attrs = NULL;
  example_t t;
  if (!is_label_chosen(label)) return;
  if (tenon_recording_load(folder, &recording) != TENON_OK) {
    finding(NULL, "recorded.reads", "a folder with call.json is a recorded call",
            "correct or remove the folder", "%s", tenon_error());
    return;
  }
  tenon_recording_info(recording, &info);
  if (strcmp(info.op, subject->name) == 0) {
    if (open_call(subject, folder, label, recording, &attrs, &t)) try_call(&t, &info);
    example_free(&t);
  }
  tenon_attrs_release(attrs);
  tenon_recording_release(recording);
}

static bool has_call(const char *folder) {
  char path[5000];
  struct stat about;
  snprintf(path, sizeof path, "%s/call.json", folder);
  return stat(path, &about) == 0;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

static void check_recorded(const subject_t *subject) {
  struct dirent **entries = NULL;
  if (has_call(options.samples)) try_folder(subject, options.samples, "call");
  int count = scandir(options.samples, &entries, NULL, by_name);
  for (int i = 0; i < count; i++) {
    char folder[4500];
    snprintf(folder, sizeof folder, "%s/%s", options.samples, entries[i]->d_name);
    if (entries[i]->d_name[0] != '.' && has_call(folder))
      try_folder(subject, folder, entries[i]->d_name);
    free(entries[i]);
  }
  free(entries);
}

bool samples_save(const subject_t *subject, const char *to) {
  examples_t all = examples(subject, true);
  int number = 0;
  mkdir(to, 0777); /* on failure, saving reports the reason */
  for (example_t *t; (t = examples_next(&all));) {
    char folder[5000];
    snprintf(folder, sizeof folder, "%s/%s.%03d", to, subject->name, number++);
    tenon_recording_info_t info = {
        .size = sizeof info, .input_count = (int32_t)t->op->input_count, .inputs = t->inputs};
    if (tenon_recording_save(folder, t->op, t->attrs, &info) == TENON_OK) continue;
    fprintf(stderr, "check_operator: %s\n", tenon_error());
    example_free(&all.now);
    return false;
  }
  return true;
}

static const char *lacks_recordings(const subject_t *s) {
  (void)s;
  return options.samples ? NULL : "no --samples are given";
}

const check_t checks_recorded[] = {{"recorded.values",
                                    "The calls in --samples return the recorded results, whatever "
                                    "the memory layout of their arguments.",
                                    "recorded.reads strides.unaligned", lacks_recordings,
                                    check_recorded},
                                   {NULL, NULL, NULL, NULL, NULL}};
