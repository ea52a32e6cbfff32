/* `tenon bench` measures how long operators take and puts the result beside the machine's peak
 * rates, beside another operator, or beside an earlier result. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "bench_results.h"
#include "bench_sizes.h"
#include "device.h"
#include "file.h"
#include "formula.h"
#include "library.h"
#include "options.h"
#include "print_error.h"
#include "process.h"
#include "progress.h"
#include "roofline.h"
#include "system.h"

typedef struct bench_t {
  texts_t ops;
  texts_t forms;
  texts_t attrs;
  texts_t dims;
  texts_t libraries;
  const char *library;
  const char *dtype;
  const char *device;
  const char *flops;
  const char *against;
  const char *baseline;
  const char *json;
  const char *svg;
  int64_t threads;
  double seconds;
  const tenon_op_t *other; /* the operator that --against names */
  bool builtin;
  bool fresh;
  int32_t left_out; /* operators of the library that could not be measured */
  devices_t devices;
  machine_t machine;
  bench_results_t results;
} bench_t;

/* Measures another operator with the same arguments. */
static bool measure_other_operator(const bench_t *bench, const bench_call_t *subject,
                                   times_t *out_times, text_t *why) {
  bench_call_t other;
  bool fine = bench_call_begin_with(bench->other, subject, &other, why) &&
              measure_times(bench_call_repeat, &other, bench->seconds, out_times, why);
  bench_call_end(&other);
  if (!fine) {
    text_t whole = {NULL, 0, 0, false};
    text_add(&whole, "--against %s: %s", bench->against, text_get(why));
    text_free(why);
    *why = whole;
  }
  return fine;
}

static bool measure_size(bench_t *bench, const tenon_op_t *op, const char *name, const char *device,
                         const bench_size_t *size, text_t *why) {
  bench_call_t subject;
  text_t words = {NULL, 0, 0, false};
  text_t arguments = {NULL, 0, 0, false};
  times_t times;
  times_t other = {0, 0, 0, 0, 0, 0};
  double operations = 0;
  bool fine = bench_call_begin(op, size, &subject, why);
  bench_size_label(size, &words);
  if (fine) progress_show("bench", bench->results.count, 0, text_get(&words));
  fine = fine &&
         (!bench->flops ||
          formula_value(bench->flops, bench_call_lookup, &subject, &operations, why)) &&
         measure_times(bench_call_repeat, &subject, bench->seconds, &times, why);
  if (fine && bench->other) fine = measure_other_operator(bench, &subject, &other, why);
  progress_clear();
  if (fine) {
    bench_call_describe(&subject, &arguments);
    bench_result_t *result =
        bench_results_add(&bench->results, name, device, text_get(&words), text_get(&arguments));
    if (!(fine = result != NULL))
      text_add(why, "out of memory");
    else {
      result->other = other.median;
      result->other_first = other.first;
      result->other_third = other.third;
      result->times = times;
      result->bytes = bench_call_bytes(&subject);
      result->operations = operations;
      result->is_f64 = subject.info.input_count && subject.inputs[0] &&
                       tenon_dtype_id(subject.inputs[0]->dtype) == TENON_F64;
    }
  }
  bench_call_end(&subject);
  text_free(&words);
  text_free(&arguments);
  return fine;
}

static bool measure_all_sizes(bench_t *bench, const tenon_op_t *op, const char *name, text_t *why) {
  const bench_size_t common = {
      .dtype = bench->dtype, .forms = &bench->forms, .attrs = &bench->attrs};
  bench_sizes_t *sizes = calloc(1, sizeof *sizes);
  bool fine = sizes && bench_sizes_make(op, &bench->dims, &common, sizes, why);
  for (uint32_t d = 0; fine && d < bench->devices.count; d++)
    for (int32_t i = 0; fine && i < sizes->count; i++) {
      const tenon_device_t device = bench->devices.devices[d];
      const char *backend = tenon_key_for_device(device);
      sizes->items[i].device = device;
      fine = measure_size(bench, op, name, backend ? backend : "cpu", &sizes->items[i], why);
    }
  if (!fine && why->size) {
    text_t whole = {NULL, 0, 0, false};
    text_add(&whole, "%s: %s", name, text_get(why));
    text_free(why);
    *why = whole;
  }
  free(sizes);
  return fine;
}

/* Finds an operator by name. A name without a namespace is looked up in the library under test, or
 * in `core` if there is none. */
static const tenon_op_t *find_operator(const bench_t *bench, const tenon_library_t *library,
                                       const char *word, text_t *why) {
  const tenon_op_t *op = NULL;
  text_t name = {NULL, 0, 0, false};
  if (strstr(word, "::"))
    text_add(&name, "%s", word);
  else
    text_add(&name, "%s::%s", library && !bench->builtin ? tenon_library_name(library) : "core",
             word);
  if (tenon_op_find(text_get(&name), &op) != TENON_OK) text_add(why, "%s", tenon_error());
  text_free(&name);
  return op;
}

static bool measure_ops(bench_t *bench, const tenon_library_t *library, text_t *why) {
  tenon_op_info_t info = {.size = sizeof info};
  bool fine = true;
  for (int32_t i = 0; !bench->ops.count && i < tenon_library_op_count(library); i++) {
    tenon_op_info(tenon_library_op(library, i), &info);
    if (measure_all_sizes(bench, tenon_library_op(library, i), info.name, why)) continue;
    bench->left_out++;
    print_failure("not measured: %s", text_get(why)); /* the others are still measured */
    text_clear(why);
  }
  for (int32_t i = 0; fine && i < bench->ops.count; i++) {
    const tenon_op_t *op = find_operator(bench, library, bench->ops.items[i], why);
    if (op) tenon_op_info(op, &info);
    fine = op && measure_all_sizes(bench, op, info.name, why);
  }
  return fine;
}

static bool add_option(texts_t *list, const char *option, const char *value) {
  return !value || (texts_add(list, option) && texts_add(list, value));
}

static bool add_option_values(texts_t *list, const char *option, const texts_t *values) {
  bool fine = true;
  for (int32_t i = 0; i < values->count; i++)
    fine = fine && add_option(list, option, values->items[i]);
  return fine;
}

/* Runs the same measurement in a second process, because another library that defines the operator
 * cannot be loaded into this one. */
static bool measure_other_library(bench_t *bench, text_t *why) {
  text_t own = {NULL, 0, 0, false};
  text_t file = {NULL, 0, 0, false};
  text_t json = {NULL, 0, 0, false};
  text_t number = {NULL, 0, 0, false};
  texts_t command = {NULL, 0, 0};
  bool fine = system_own_folder(&own) && system_temporary_file(&file);
  text_add(&own, "/tenon");
  text_add(&number, "%g", bench->seconds);
  fine = fine && texts_add(&command, text_get(&own)) && texts_add(&command, "bench") &&
         texts_add(&command, bench->against);
  for (int32_t i = 0; i < bench->ops.count; i++)
    fine = fine && texts_add(&command, bench->ops.items[i]);
  fine = fine && add_option_values(&command, "--ops", &bench->libraries) &&
         add_option_values(&command, "--dim", &bench->dims) &&
         add_option_values(&command, "--input", &bench->forms) &&
         add_option_values(&command, "--attr", &bench->attrs) &&
         add_option(&command, "--dtype", bench->dtype) &&
         add_option(&command, "--device", bench->device) &&
         add_option(&command, "--seconds", text_get(&number)) &&
         add_option(&command, "--json", text_get(&file));
  text_clear(&number);
  text_add(&number, "%d", (int)bench->machine.threads);
  fine = fine && add_option(&command, "--threads", text_get(&number));
  if (!fine) text_add(why, "out of memory, or no temporary file could be created");
  fine = fine && process_run(&command, NULL, NULL, why) && file_read(text_get(&file), &json, why);
  if (fine && !bench_results_compare(&bench->results, text_get(&json))) {
    text_add(why, "--against %s: this library has none of the measured operators at these sizes",
             bench->against);
    fine = false;
  }
  if (file.size) remove(text_get(&file));
  text_t *const texts[] = {&own, &file, &json, &number};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    text_free(texts[i]);
  texts_free(&command);
  return fine;
}

static bool compare_results(bench_t *bench, text_t *why) {
  text_t json = {NULL, 0, 0, false};
  bool fine = true;
  if (bench->baseline) {
    fine = file_read(bench->baseline, &json, why);
    if (fine && !bench_results_compare(&bench->results, text_get(&json))) {
      text_add(
          why,
          "--baseline %s: the file has no result for any of these operators, sizes and devices",
          bench->baseline);
      fine = false;
    }
  }
  if (fine && bench->against && !bench->other)
    fine = measure_other_library(bench, why) && measure_other_library(bench, why);
  text_free(&json);
  return fine;
}

static bool show_results(const bench_t *bench, text_t *why) {
  roofline_point_t *points = calloc((size_t)bench->results.count + 1, sizeof *points);
  text_t words = {NULL, 0, 0, false};
  text_t json = {NULL, 0, 0, false};
  text_t svg = {NULL, 0, 0, false};
  bool fine = points != NULL;
  if (!fine) text_add(why, "out of memory");
  int32_t count = 0;
  for (int32_t i = 0; fine && i < bench->results.count; i++) {
    const bench_result_t *f = &bench->results.items[i];
    if (bench->flops && bench->results.count <= 26) text_add(&words, "%c ", 'a' + i);
    text_add(&words, "%s  %s  %s\n  %s\n", f->op, f->size, f->device, f->arguments);
    bench_result_describe(f, &bench->machine, &words);
    if (strcmp(f->device, "cpu") == 0)
      points[count++] =
          (roofline_point_t){f->size, f->bytes, f->operations, f->times.median * 1e-9, f->is_f64};
  }
  if (fine && count == bench->results.count && count <= 26)
    roofline_picture(&bench->machine, points, count, &words);
  if (fine) printf("%s", text_get(&words));
  if (fine && bench->json) {
    bench_results_json(&bench->results, &bench->machine, bench->library ? bench->library : "",
                       &json);
    fine = file_write(bench->json, &json, why);
  }
  if (fine && bench->svg) {
    if (!bench->flops) {
      text_add(why,
               "--svg needs --flops: the roofline plots arithmetic per second, so the number of "
               "operations must be known");
      fine = false;
    }
    if (fine) roofline_svg(&bench->machine, points, count, bench->results.items[0].op, &svg);
    fine = fine && file_write(bench->svg, &svg, why);
  }
  text_free(&words);
  text_free(&json);
  text_free(&svg);
  free(points);
  return fine;
}

static bool bench_operators(bench_t *bench, text_t *why) {
  tenon_library_t *library = NULL;
  text_t path = {NULL, 0, 0, false};
  texts_t no_pins = {NULL, 0, 0};
  tenon_compile_t options = {.size = sizeof options};
  if (bench->threads) tenon_threads_set((int32_t)bench->threads);
  bool fine = library_load_all(&bench->libraries, false, why);
  if (fine && bench->library) {
    library_path(bench->library, &path);
    fine = library_load(text_get(&path), 0, &library) == TENON_OK;
    if (!fine) text_add(why, "%s", tenon_error());
  }
  if (fine && bench->against && strstr(bench->against, "::")) {
    fine = tenon_op_find(bench->against, &bench->other) == TENON_OK;
    if (!fine) text_add(why, "--against: %s", tenon_error());
  }
  fine = fine &&
         devices_open(&bench->devices, bench->device ? bench->device : "cpu", &no_pins, &options,
                      why) &&
         machine_measure(&bench->machine, bench->fresh, why) && measure_ops(bench, library, why) &&
         compare_results(bench, why) && show_results(bench, why);
  tenon_library_release(library);
  text_free(&path);
  return fine;
}

/* Splits the operands LIB OPERATOR...: the first operand is the library if it looks like a file
 * name. */
static void take_operands(bench_t *bench, const texts_t *operands) {
  for (int32_t i = 0; i < operands->count; i++) {
    const char *word = operands->items[i];
    if (i == 0 && !bench->builtin && !strstr(word, "::") &&
        (strchr(word, '/') || strchr(word, '.')))
      bench->library = word;
    else
      (void)texts_add(&bench->ops, word);
  }
}

static int run_bench_verb(const verb_t *verb, int argc, char **argv) {
  bench_t bench = {.seconds = 0.5};
  text_t why = {NULL, 0, 0, false};
  const option_t options[] = {
      {"ops", 0, OPTION_TEXTS, "LIB", "load this operator library first; may be repeated",
       &bench.libraries},
      {"builtin", 0, OPTION_FLAG, NULL, "measure built-in operators", &bench.builtin},
      {"dim", 'd', OPTION_TEXTS, "NAME=N,...",
       "sizes to measure: values for the extent names of TENON_SAMPLES or TENON_SHAPES; every "
       "combination is measured",
       &bench.dims},
      {"input", 'i', OPTION_TEXTS, "NAME=DTYPE[N,...]",
       "shape of an argument, such as x=f32[64,512]; may be repeated", &bench.forms},
      {"attr", 'a', OPTION_TEXTS, "NAME=VALUE",
       "value of an attribute, such as axis=1; may be repeated", &bench.attrs},
      {"dtype", 0, OPTION_TEXT, "DTYPE", "dtype of the arguments that are generated", &bench.dtype},
      {"device", 0, OPTION_TEXT, "NAME[,NAME]...", "devices to measure on (default: cpu)",
       &bench.device},
      {"threads", 't', OPTION_INT, "N",
       "number of threads (default: TENON_THREADS, else the processors that the process may use)",
       &bench.threads},
      {"flops", 0, OPTION_TEXT, "EXPR",
       "arithmetic operations of one call as a formula over the extent names, such as '2 * m * n * "
       "k'; x stands for the number of elements of argument x, x[1] for an extent",
       &bench.flops},
      {"against", 0, OPTION_TEXT, "LIB or NS::OP",
       "also measure the operator of the same name from another library, or another operator with "
       "the same arguments",
       &bench.against},
      {"baseline", 0, OPTION_TEXT, "FILE", "compare with the results that --json wrote earlier",
       &bench.baseline},
      {"seconds", 's', OPTION_NUMBER, "S", "seconds to measure each size (default: 0.5)",
       &bench.seconds},
      {"json", 0, OPTION_TEXT, "FILE", "write the results to FILE as JSON", &bench.json},
      {"svg", 0, OPTION_TEXT, "FILE", "draw the roofline to FILE; needs --flops", &bench.svg},
      {"fresh", 0, OPTION_FLAG, NULL,
       "measure the machine's peak rates again instead of using the cached ones", &bench.fresh},
      {NULL, 0, OPTION_FLAG, NULL, NULL, NULL}};
  command_line_t line = {verb, options, 1, -1, "LIB or OPERATOR", {NULL, 0, 0}, NULL};
  int code = options_parse(&line, argc, argv);
  if (code == OPTIONS_PARSED) {
    take_operands(&bench, &line.operands);
    library_supervise();
    if (!bench_operators(&bench, &why))
      code = print_failure("%s", text_get(&why));
    else
      code = bench.left_out ? EXIT_FAILED : EXIT_FINE;
  }
  devices_close(&bench.devices);
  bench_results_free(&bench.results);
  texts_t *const lists[] = {&bench.ops,  &bench.forms,     &bench.attrs,
                            &bench.dims, &bench.libraries, &line.operands};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    texts_free(lists[i]);
  text_free(&why);
  return code;
}

const verb_t verb_bench = {
    "bench", "[LIB] OPERATOR... [option]...", "measure how long operators take",
    "Calls operators with generated arguments of several sizes (from TENON_SAMPLES, else from the "
    "schema) and prints the median time of a call and its spread, next to the peak memory "
    "bandwidth and arithmetic rate of this machine.\nThe peaks are measured once and cached. LIB "
    "alone measures all operators of the library; without LIB, OPERATOR is a built-in operator.",
    run_bench_verb};
