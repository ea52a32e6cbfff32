/* Makes the inputs of a model from the command line; see inputs.h. A value is @FILE, a word of
 * fill.h, or literal: numbers separated by commas, or for strings one text per option. */
#include "inputs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "element.h"
#include "fill.h"
#include "summary.h"

typedef struct input_t {
  tenon_port_t port;
  texts_t values; /* one value; for strings possibly several */
} input_t;

typedef struct request_t {
  input_t *inputs;
  int32_t count;
  const texts_t *dims;
} request_t;

static void list_inputs(const request_t *request, bool missing_only, text_t *why) {
  for (int32_t i = 0; i < request->count; i++) {
    if (missing_only && request->inputs[i].values.count > 0) continue;
    text_add(why, "\n  %s  ", request->inputs[i].port.name);
    summary_add_port(why, &request->inputs[i].port);
  }
}

/* Finds the input whose name, followed by `=`, begins `text`. If several match, the longest name
 * wins, because an ONNX name may contain `=`. */
static input_t *find_input(const request_t *request, const char *text, const char **out_value) {
  input_t *found = NULL;
  size_t longest = 0;
  for (int32_t i = 0; i < request->count; i++) {
    const char *name = request->inputs[i].port.name;
    size_t size = strlen(name);
    if (strncmp(text, name, size) != 0 || text[size] != '=' || (found && size < longest)) continue;
    found = &request->inputs[i];
    longest = size;
    *out_value = text + size + 1;
  }
  return found;
}

static bool assign_values(const request_t *request, const texts_t *values, text_t *why) {
  const char *others = NULL; /* a word for all inputs that are not named */
  bool fine = true;
  for (int32_t i = 0; fine && i < values->count; i++) {
    const char *value = NULL;
    input_t *input = find_input(request, values->items[i], &value);
    if (input) {
      if (!texts_add(&input->values, value)) {
        text_add(why, "out of memory");
        return false;
      }
    } else if (fill_is_word(values->items[i])) {
      others = values->items[i];
    } else {
      text_add(why, "--input '%s': expected NAME=VALUE where NAME is one of these inputs:",
               values->items[i]);
      list_inputs(request, false, why);
      fine = false;
    }
  }
  int32_t missing = 0;
  for (int32_t i = 0; fine && i < request->count; i++) {
    input_t *input = &request->inputs[i];
    if (input->values.count > 0) continue;
    if (!others)
      missing++;
    else if (!texts_add(&input->values, others)) {
      text_add(why, "out of memory");
      return false;
    }
  }
  if (missing > 0) {
    text_add(why, "%d input%s no value:", (int)missing, missing == 1 ? " has" : "s have");
    list_inputs(request, true, why);
    text_add(why, "\ngive each a value by --input NAME=VALUE, or all of them by --input random:0");
  }
  return fine && missing == 0;
}

/* The extent that --dim gives to a symbolic name, or -1. */
static int64_t find_dim(const texts_t *dims, const char *name) {
  size_t size = name ? strlen(name) : 0;
  for (int32_t i = 0; size > 0 && i < dims->count; i++)
    if (strncmp(dims->items[i], name, size) == 0 && dims->items[i][size] == '=')
      return strtoll(dims->items[i] + size + 1, NULL, 10);
  return -1;
}

static bool is_symbol(const request_t *request, const char *text) {
  for (int32_t i = 0; i < request->count; i++) {
    const tenon_port_t *port = &request->inputs[i].port;
    for (int32_t k = 0; k < port->ndim; k++) {
      const char *name = port->axes[k].extent < 0 ? port->axes[k].name : NULL;
      if (name && strncmp(text, name, strlen(name)) == 0 && text[strlen(name)] == '=') return true;
    }
  }
  return false;
}

static bool check_dims(const request_t *request, text_t *why) {
  for (int32_t i = 0; i < request->dims->count; i++) {
    const char *text = request->dims->items[i];
    const char *equal = strrchr(text, '=');
    char *end = NULL;
    long long extent = equal ? strtoll(equal + 1, &end, 10) : -1;
    if (!equal || end == equal + 1 || *end || extent < 0) {
      text_add(why, "--dim '%s': expected NAME=N with N at least 0", text);
      return false;
    }
    if (!is_symbol(request, text)) {
      text_add(why, "--dim '%s': no input has an extent with this name; the inputs are:", text);
      list_inputs(request, false, why);
      return false;
    }
  }
  return true;
}

/* Resolves the symbolic extents of an input: the value of --dim, else 1. Returns false if the model
 * does not state the rank. */
static bool resolve_shape(const request_t *request, const tenon_port_t *port, int64_t *shape) {
  for (int32_t i = 0; i < port->ndim; i++) {
    int64_t given = find_dim(request->dims, port->axes[i].name);
    shape[i] = given >= 0 ? given : 1;
    if (port->axes[i].extent >= 0) shape[i] = port->axes[i].extent;
  }
  return port->ndim >= 0;
}

/* Chooses the shape for `count` literal elements: the resolved shape if it has as many elements,
 * else one axis. */
static int32_t literal_shape(const request_t *request, const tenon_port_t *port, int64_t count,
                             int64_t *shape) {
  bool known = resolve_shape(request, port, shape);
  int64_t room = known ? 1 : -1;
  for (int32_t i = 0; i < port->ndim && room > 0; i++)
    room = shape[i] > count ? -1 : room * shape[i];
  if (room == count) return port->ndim;
  if (!known && count == 1) return 0;
  shape[0] = count;
  return 1;
}

static bool create_tensor(const tenon_port_t *port, int32_t ndim, const int64_t *shape,
                          tenon_tensor_t **out, text_t *why) {
  if (tenon_tensor_create(port->dtype, ndim, shape, out) == TENON_OK) return true;
  text_add(why, "%s", tenon_error());
  return false;
}

static bool make_strings(const request_t *request, const tenon_port_t *port, const texts_t *lines,
                         tenon_tensor_t **out, text_t *why) {
  int64_t shape[TENON_RANK_MAX];
  int32_t ndim = literal_shape(request, port, lines->count, shape);
  bool fine = create_tensor(port, ndim, shape, out, why);
  for (int32_t i = 0; fine && i < lines->count; i++) {
    fine = tenon_tensor_set_string(*out, i, lines->items[i], strlen(lines->items[i])) == TENON_OK;
    if (!fine) text_add(why, "%s", tenon_error());
  }
  return fine;
}

static bool read_lines(const char *path, texts_t *lines, text_t *why) {
  FILE *file = fopen(path, "r");
  text_t line = {NULL, 0, 0, false};
  bool fine = file != NULL;
  if (!fine) text_add(why, "cannot open %s", path);
  for (int byte = 0; fine && byte != EOF;) {
    byte = fgetc(file);
    char letter = (char)byte;
    if (byte != EOF && byte != '\n') {
      text_bytes(&line, &letter, 1);
    } else if (byte == '\n' || line.size > 0) {
      fine = !line.failed && texts_add(lines, text_get(&line));
      if (!fine) text_add(why, "out of memory");
      text_clear(&line);
    }
  }
  if (fine && ferror(file)) {
    text_add(why, "cannot read %s", path);
    fine = false;
  }
  if (file) fclose(file);
  text_free(&line);
  return fine;
}

/* Parses numbers separated by commas or blanks; brackets are ignored. True and False are 1 and
 * 0. */
static int64_t parse_numbers(const char *text, double *out, int64_t room) {
  int64_t count = 0;
  for (text += strspn(text, " ,[]"); *text; text += strspn(text, " ,[]")) {
    char *end = NULL;
    double number = strtod(text, &end);
    if (strncmp(text, "True", 4) == 0 || strncmp(text, "true", 4) == 0) {
      number = 1;
      end = (char *)(uintptr_t)text + 4;
    }
    if (strncmp(text, "False", 5) == 0 || strncmp(text, "false", 5) == 0) {
      number = 0;
      end = (char *)(uintptr_t)text + 5;
    }
    if (end == text) return -1;
    if (count < room) out[count] = number;
    count++;
    text = end;
  }
  return count;
}

static bool make_numbers(const request_t *request, const tenon_port_t *port, const char *text,
                         tenon_tensor_t **out, text_t *why) {
  int64_t shape[TENON_RANK_MAX];
  int64_t count = parse_numbers(text, NULL, 0);
  if (count <= 0) {
    text_add(why, "expected @FILE, zeros, ones, ramp, random:SEED or numbers, found '%s'", text);
    return false;
  }
  double *numbers = malloc((size_t)count * sizeof *numbers);
  if (!numbers) {
    text_add(why, "out of memory");
    return false;
  }
  parse_numbers(text, numbers, count);
  int32_t ndim = literal_shape(request, port, count, shape);
  if (count == 1 && resolve_shape(request, port, shape))
    ndim = port->ndim; /* one number for all elements */
  bool fine = create_tensor(port, ndim, shape, out, why);
  for (int64_t i = 0; fine && i < tenon_count(*out); i++)
    element_set(*out, i, numbers[count == 1 ? 0 : i]);
  free(numbers);
  return fine;
}

static bool make_filled(const request_t *request, int32_t index, const char *word,
                        tenon_tensor_t **out, text_t *why) {
  const tenon_port_t *port = &request->inputs[index].port;
  int64_t shape[TENON_RANK_MAX];
  if (!port->dtype.bits || !resolve_shape(request, port, shape)) {
    text_add(
        why,
        "'%s' needs dtype and rank of the input, which the model does not state: give @FILE.npy",
        word);
    return false;
  }
  return create_tensor(port, port->ndim, shape, out, why) &&
         fill_tensor(*out, word, (uint32_t)index, why);
}

static bool make_input(const request_t *request, int32_t index, tenon_tensor_t **out, text_t *why) {
  const input_t *input = &request->inputs[index];
  const char *value = input->values.items[0];
  bool strings = element_class(input->port.dtype) == ELEMENT_STRING;
  if (!strings && input->values.count > 1) {
    text_add(why, "%d values are given, expected one: only string inputs may have several",
             (int)input->values.count);
    return false;
  }
  if (value[0] == '@' &&
      (text_ends_with(value, ".npy") || text_ends_with(value, ".pb") || !strings)) {
    if (tenon_tensor_load(value + 1, out) == TENON_OK) return true;
    text_add(why, "%s", tenon_error());
    return false;
  }
  if (value[0] == '@') {
    texts_t lines = {NULL, 0, 0};
    bool fine =
        read_lines(value + 1, &lines, why) && make_strings(request, &input->port, &lines, out, why);
    texts_free(&lines);
    return fine;
  }
  if (fill_is_word(value)) return make_filled(request, index, value, out, why);
  return strings ? make_strings(request, &input->port, &input->values, out, why)
                 : make_numbers(request, &input->port, value, out, why);
}

bool inputs_make(const tenon_graph_t *graph, const texts_t *values, const texts_t *dims,
                 tenon_tensor_t **out_tensors, text_t *why) {
  request_t request = {NULL, tenon_graph_input_count(graph), dims};
  bool fine = true;
  request.inputs = calloc((size_t)request.count + 1, sizeof *request.inputs);
  if (!request.inputs) {
    text_add(why, "out of memory");
    return false;
  }
  for (int32_t i = 0; i < request.count; i++)
    out_tensors[i] = NULL;
  for (int32_t i = 0; fine && i < request.count; i++) {
    request.inputs[i].port.size = sizeof request.inputs[i].port;
    fine = tenon_graph_input(graph, i, &request.inputs[i].port) == TENON_OK;
    if (!fine) text_add(why, "%s", tenon_error());
  }
  fine = fine && check_dims(&request, why) && assign_values(&request, values, why);
  for (int32_t i = 0; fine && i < request.count; i++) {
    text_t reason = {NULL, 0, 0, false};
    fine = make_input(&request, i, &out_tensors[i], &reason);
    if (!fine) text_add(why, "input '%s': %s", request.inputs[i].port.name, text_get(&reason));
    text_free(&reason);
  }
  for (int32_t i = 0; i < request.count; i++)
    texts_free(&request.inputs[i].values);
  free(request.inputs);
  return fine;
}
