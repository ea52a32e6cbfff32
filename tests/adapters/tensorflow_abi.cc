// Compares what bridges/tensorflow/tf.h and text.c declare anew with TensorFlow's own headers, when
// it is compiled: values, layouts, and how each function is called. Run, it reads strings that
// TensorFlow's header wrote, and the other way round.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>

#include <tensorflow/c/c_api.h>
#include <tensorflow/c/c_api_experimental.h>
#include <tensorflow/c/kernels.h>
#include <tensorflow/c/ops.h>
#include <tensorflow/c/tf_buffer.h>
#include <tensorflow/c/tf_datatype.h>
#include <tensorflow/c/tf_status.h>
#include <tensorflow/c/tf_tensor.h>
#include <tensorflow/core/platform/ctstring.h>

#include <tenon/tenon.h>
namespace own { // its names for values are those of TensorFlow
#include "tensorflow/tf.h"
} // namespace own
extern "C" {
#include "tensorflow/text.h"
}

// ---- values ----

#define SAME_VALUE(name)                                                                           \
  static_assert(static_cast<int>(own::name) == static_cast<int>(::name), #name)
SAME_VALUE(TF_FLOAT);
SAME_VALUE(TF_DOUBLE);
SAME_VALUE(TF_INT32);
SAME_VALUE(TF_UINT8);
SAME_VALUE(TF_INT16);
SAME_VALUE(TF_INT8);
SAME_VALUE(TF_STRING);
SAME_VALUE(TF_COMPLEX64);
SAME_VALUE(TF_INT64);
SAME_VALUE(TF_BOOL);
SAME_VALUE(TF_QINT8);
SAME_VALUE(TF_QUINT8);
SAME_VALUE(TF_QINT32);
SAME_VALUE(TF_BFLOAT16);
SAME_VALUE(TF_QINT16);
SAME_VALUE(TF_QUINT16);
SAME_VALUE(TF_UINT16);
SAME_VALUE(TF_COMPLEX128);
SAME_VALUE(TF_HALF);
SAME_VALUE(TF_RESOURCE);
SAME_VALUE(TF_VARIANT);
SAME_VALUE(TF_UINT32);
SAME_VALUE(TF_UINT64);
SAME_VALUE(TF_FLOAT8_E5M2);
SAME_VALUE(TF_FLOAT8_E4M3FN);
SAME_VALUE(TF_INT4);
SAME_VALUE(TF_UINT4);
#ifndef TENSORFLOW_2_15_TO_2_19 // which have fewer dtypes
SAME_VALUE(TF_FLOAT8_E4M3FNUZ);
SAME_VALUE(TF_FLOAT8_E4M3B11FNUZ);
SAME_VALUE(TF_FLOAT8_E5M2FNUZ);
SAME_VALUE(TF_INT2);
SAME_VALUE(TF_UINT2);
SAME_VALUE(TF_FLOAT4_E2M1FN);
#endif
SAME_VALUE(TF_OK);
SAME_VALUE(TF_INVALID_ARGUMENT);
SAME_VALUE(TF_NOT_FOUND);
SAME_VALUE(TF_ALREADY_EXISTS);
SAME_VALUE(TF_RESOURCE_EXHAUSTED);
SAME_VALUE(TF_FAILED_PRECONDITION);
SAME_VALUE(TF_OUT_OF_RANGE);
SAME_VALUE(TF_UNIMPLEMENTED);
SAME_VALUE(TF_INTERNAL);

// ---- structures ----

#define SAME_FIELD(mine, field, theirs, their_field)                                               \
  static_assert(offsetof(own::mine, field) == offsetof(::theirs, their_field),                     \
                #theirs "." #their_field);                                                         \
  static_assert(sizeof(own::mine::field) == sizeof(::theirs::their_field), #theirs "." #their_field)
static_assert(sizeof(own::tf_buffer_t) == sizeof(TF_Buffer), "TF_Buffer");
SAME_FIELD(tf_buffer_t, data, TF_Buffer, data);
SAME_FIELD(tf_buffer_t, size, TF_Buffer, length);
SAME_FIELD(tf_buffer_t, release, TF_Buffer, data_deallocator);
static_assert(sizeof(own::tf_view_t) == sizeof(TF_StringView), "TF_StringView");
SAME_FIELD(tf_view_t, data, TF_StringView, data);
SAME_FIELD(tf_view_t, size, TF_StringView, len);
static_assert(sizeof(own::tf_input_range_t) == sizeof(TF_InputRange_Args), "TF_InputRange_Args");
SAME_FIELD(tf_input_range_t, size, TF_InputRange_Args, struct_size);
SAME_FIELD(tf_input_range_t, start, TF_InputRange_Args, start);
SAME_FIELD(tf_input_range_t, stop, TF_InputRange_Args, stop);
SAME_FIELD(tf_input_range_t, status, TF_InputRange_Args, status);
SAME_FIELD(tf_allocator_t, size, TF_AllocatorAttributes, struct_size);
SAME_FIELD(tf_allocator_t, on_host, TF_AllocatorAttributes, on_host);
static_assert(sizeof(own::tf_allocator_t) == sizeof(TF_AllocatorAttributes),
              "TF_AllocatorAttributes");

// ---- functions ----

// Whether a value of one type is passed as one of the other: both are pointers, both numbers of
// the same size, or structures of the same size.
template <class A, class B> constexpr bool is_passed_alike() {
  if (std::is_pointer<A>::value || std::is_pointer<B>::value)
    return std::is_pointer<A>::value && std::is_pointer<B>::value;
  if (std::is_void<A>::value || std::is_void<B>::value)
    return std::is_void<A>::value && std::is_void<B>::value;
  constexpr bool is_number = std::is_integral<A>::value || std::is_enum<A>::value;
  constexpr bool is_other = std::is_integral<B>::value || std::is_enum<B>::value;
  return is_number == is_other && sizeof(std::conditional_t<std::is_void<A>::value, char, A>) ==
                                      sizeof(std::conditional_t<std::is_void<B>::value, char, B>);
}
template <class Mine, class Theirs> struct alike;
template <class A, class... As, class B, class... Bs> struct alike<A (*)(As...), B (*)(Bs...)> {
  template <bool is_equal, class = void> struct parameters { static constexpr bool value = false; };
  template <class Unused> struct parameters<true, Unused> {
    static constexpr bool value = (is_passed_alike<As, Bs>() && ... && true);
  };
  static constexpr bool value =
      is_passed_alike<A, B>() && parameters<sizeof...(As) == sizeof...(Bs)>::value;
};
#define SAME_FUNCTION(result, name, arguments)                                                     \
  static_assert(alike<decltype(own::tf_api_t::name), decltype(&::name)>::value, #name);
TF_FUNCTIONS(SAME_FUNCTION)
SAME_FUNCTION(, TF_GetStream, )
SAME_FUNCTION(, TF_GetDeviceId, )
SAME_FUNCTION(, TF_InputDatatype, )
SAME_FUNCTION(, TF_InputRange, )
SAME_FUNCTION(, TF_Version, )
SAME_FUNCTION(, TF_OpIsStateful, )
SAME_FUNCTION(, TF_NewBuffer, )

// ---- strings ----

static_assert(sizeof(TF_TString) == TEXT_SIZE, "a string has 24 bytes");

static void check(bool is_good, const char *what, size_t size) {
  if (is_good) return;
  std::printf("%s, %zu bytes\n", what, size);
  std::exit(1);
}

static bool has_text(tenon_string_t found, const std::string &text) {
  return std::string(found.data, found.size) == text;
}
static tenon_string_t contents(const TF_TString *text) {
  return {TF_TString_GetDataPointer(text), TF_TString_GetSize(text)};
}

int main() {
  for (size_t size : {0, 1, 21, 22, 23, 24, 31, 32, 100, 70000}) {
    const std::string text(size, 'x');
    TF_TString theirs, view, made;
    TF_TString_Init(&theirs);
    TF_TString_Copy(&theirs, text.data(), text.size());
    check(has_text(text_read(&theirs), text), "text_read of a string", size);
    TF_TString_Dealloc(&theirs);
    TF_TString_Init(&view);
    TF_TString_AssignView(&view, text.data(), text.size());
    check(has_text(text_read(&view), text), "text_read of a view", size);
    TF_TString_Dealloc(&view);
    std::memset(&made, 0, sizeof made);
    check(text_write(&made, text.data(), text.size()), "text_write", size);
    check(has_text(contents(&made), text), "text_write", size);
    check(TF_TString_GetCapacity(&made) >= size, "the capacity that text_write states", size);
    TF_TString_AppendN(&made, text.data(), text.size()); // grows the memory
    check(has_text(contents(&made), text + text), "a string that TensorFlow appends to", size);
    TF_TString_Dealloc(&made);
  }
  return 0;
}
