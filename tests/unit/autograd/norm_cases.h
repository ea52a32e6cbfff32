/* Cases of normalisations, a part of the list in cases.h.  Kinks: what is constant where it is
 * normalised. */
/* clang-format off */
#define CHANNELS4 "f64[4] ~2", "f64[4] ~3"
  {"core::batch_norm", NULL, {"f64[2, 3, 2] ~1", "f64[3] ~2", "f64[3] ~3", "f64[3] ~4", "f64[3] 0.5 1.5 2"}}, {"core::batch_norm", "epsilon=0.1", {"f64[3, 2] ~1", "f64[2] ~2", "f64[2] ~3", "f64[2] ~4", "f64[2] 0.5 1.5"}},
  {"core::batch_norm", NULL, {"f64[1, 2, 2, 2] ~1", "f64[2] ~2", "f64[2] ~3", "f64[2] ~4", "f64[2] 0.5 1.5"}}, {"core::batch_norm", NULL, {"f64[0, 2, 2]", "f64[2] ~2", "f64[2] ~3", "f64[2] ~4", "f64[2] 0.5 1.5"}},
  {"core::group_norm", "groups=2", {"f64[2, 4, 2] ~1", CHANNELS4}}, {"core::group_norm", "groups=1; epsilon=0.1", {"f64[1, 2, 2, 2] ~1", NULL, "f64[2] ~3"}}, {"core::group_norm", "groups=2; epsilon=0.5", {"f64[2, 4] ~1", "f64[4] ~2", NULL}}, {"core::group_norm", "groups=2", {"f64[0, 4, 2]", CHANNELS4}},
  {"core::instance_norm", NULL, {"f64[2, 4, 3] ~1", CHANNELS4}}, {"core::instance_norm", "epsilon=0.1", {"f64[1, 2, 2, 2] ~1", NULL, NULL}}, {"core::instance_norm", NULL, {"f64[0, 4, 3]", CHANNELS4}},
  {"core::lrn", "size=3; alpha=0.5", {"f64[2, 4, 2] ~1"}}, {"core::lrn", "size=2; alpha=0.7; beta=0.5; bias=2", {"f64[1, 3, 1, 2] ~1"}}, {"core::lrn", "size=9; alpha=2", {"f64[2, 3] ~1"}}, {"core::lrn", "size=3", {"f64[0, 3, 2]"}},
  {"core::lp_norm", NULL, {"f64[2, 3] ~1"}}, {"core::lp_norm", "axis=0; p=1", {"f64[2, 3] ~1"}}, {"core::lp_norm", "axis=1", {"f64[2, 2, 2] ~1"}}, {"core::lp_norm", NULL, {"f64[0, 3]"}},
  {"core::mean_variance_norm", NULL, {"f64[2, 2, 2, 2] ~1"}}, {"core::mean_variance_norm", "axes=[-1]", {"f64[2, 3] ~1"}}, {"core::mean_variance_norm", "axes=[0, 1]", {"f64[2, 3] ~1"}}, {"core::mean_variance_norm", "axes=[1]", {"f64[0, 3]"}},
