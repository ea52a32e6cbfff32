"""Models of Keras of real size with random weights: tensorflow_convert_large_test.py and bench/tensorflow_models.py convert them.

Weights are drawn from a fixed seed.  Random weights of a deep network may let its activations vanish, so that any two results look equal.  So batch
normalisation gets the statistics of a batch of random images, layer scales are of order one, and classifiers give logits.  Normalised layers of
random weights enlarge rounding errors exponentially with depth, as trained ones do not; an offset of about one, with which most units are in the
linear part of their activation, prevents this.
"""
import dataclasses

import keras
import numpy as np
import tensorflow as tf

from keras import layers


@dataclasses.dataclass
class Model:
    """A model and its inputs as a function of the batch."""
    keras: object
    inputs: object  # batch -> list of arrays


def images(size, seed=1):
    return lambda batch: [np.random.default_rng(seed).standard_normal((batch, size, size, 3), np.float32)]


def settle(model, size, batch=4):
    """Gives batch normalisation the statistics of a batch, and layer scales and offsets numbers of order one."""
    random = np.random.default_rng(3)
    norms = [layer for layer in model._flatten_layers() if isinstance(layer, layers.BatchNormalization)]
    for layer in norms:
        layer.momentum = 0.0
        for weight in (layer.beta, layer.gamma):
            if weight is not None:
                weight.assign(1 + 0.1 * random.standard_normal(weight.shape))
    for layer in model._flatten_layers():
        if type(layer).__name__ == "LayerScale":
            layer.gamma.assign(0.3 + 0.1 * random.standard_normal(layer.gamma.shape))
    if norms:
        model(images(size, 2)(batch)[0], training=True)
    for layer in norms:  # a channel that hardly varies in these images would enlarge its rounding errors
        variance = np.asarray(layer.moving_variance)
        layer.moving_variance.assign(np.maximum(variance, variance.mean() / 4))
        layer.momentum = 0.99
    return model


def application(name, size=224):
    def make(size=size):
        keras.utils.set_random_seed(7)
        model = getattr(keras.applications, name)(weights=None, input_shape=(size, size, 3), classifier_activation=None)
        return Model(settle(model, size), images(size))
    return make


def wide(make, model):
    """Returns a model of the same weights that computes in float64, which decides where two results in float32 differ."""
    keras.config.set_dtype_policy("float64")
    try:
        made = make()
    finally:
        keras.config.set_dtype_policy("float32")
    made.keras.set_weights(model.keras.get_weights())
    return made


def encoder(depth=12, width=768, heads=12, length=128, vocabulary=30522, gelu=None):
    """The encoder of BERT (Devlin and others 2018), by default of base size.  gelu: a layer in place of Keras's activation."""
    keras.utils.set_random_seed(8)
    ids, kinds, mask = (keras.Input((length,), dtype="int32", name=name) for name in ("ids", "kinds", "mask"))
    places = layers.Embedding(512, width, name="places")(keras.ops.arange(length, dtype="int32"))
    x = layers.Embedding(vocabulary, width, name="words")(ids) + layers.Embedding(2, width, name="segments")(kinds) + places
    x = layers.LayerNormalization(epsilon=1e-12)(x)
    seen = keras.ops.expand_dims(mask, 1)
    for _ in range(depth):
        attended = layers.MultiHeadAttention(heads, width // heads)(x, x, attention_mask=seen)
        x = layers.LayerNormalization(epsilon=1e-12)(x + attended)
        y = layers.Dense(4 * width)(x)
        y = layers.Activation("gelu")(y) if gelu is None else gelu()(y)
        x = layers.LayerNormalization(epsilon=1e-12)(x + layers.Dense(width)(y))
    pooled = layers.Dense(width, activation="tanh", name="pooled")(x[:, 0])
    model = keras.Model([ids, kinds, mask], [x, pooled])

    def inputs(batch):
        random = np.random.default_rng(2)
        last = np.arange(length) < length * 3 // 4
        return [random.integers(0, vocabulary, (batch, length)).astype(np.int32), np.repeat((np.arange(length) >= length // 3).astype(np.int32)[None], batch, 0),
                np.repeat(last.astype(np.int32)[None], batch, 0)]
    return Model(model, inputs)


def own_gelu():
    """A layer that calls an operator of a Tenon library."""
    import tenon
    import tenon.keras
    from torch_kinds import GELU
    tenon.load(GELU)
    return tenon.keras.layer("demo::gelu")


def recurrent(kind, width=512, steps=100):
    def make():
        keras.utils.set_random_seed(9)
        layer = getattr(layers, kind)
        model = keras.Sequential([keras.Input((steps, 128)), layer(width, return_sequences=True), layer(width), layers.Dense(50)])
        return Model(model, lambda batch: [np.random.default_rng(4).standard_normal((batch, steps, 128), np.float32)])
    return make


MODELS = {"resnet50": application("ResNet50"), "mobilenet_v2": application("MobileNetV2"), "mobilenet_v3_small": application("MobileNetV3Small"),
          "efficientnet_b0": application("EfficientNetB0"), "densenet121": application("DenseNet121"), "inception_v3": application("InceptionV3", 299),
          "xception": application("Xception", 299), "vgg16": application("VGG16"), "nasnet_mobile": application("NASNetMobile"),
          "convnext_tiny": application("ConvNeXtTiny"), "bert_base": encoder, "bert_base_own_gelu": lambda: encoder(gelu=own_gelu), "lstm": recurrent("LSTM"),
          "gru": recurrent("GRU")}


def function_of(model, **options):
    """Returns a model as a tf.function with an unknown batch."""
    specs = [tf.TensorSpec(t.shape, t.dtype, t.name) for t in model.keras.inputs]
    single = len(specs) == 1
    return tf.function(lambda *xs: model.keras(xs[0] if single else list(xs), training=False), input_signature=specs, autograph=False, **options)
