"""Tenon's errors as TensorFlow's."""
import tensorflow as tf

from .. import _core

_CLASSES = [(_core.NotFoundError, tf.errors.NotFoundError), (_core.UnimplementedError, tf.errors.UnimplementedError), (_core.InvalidError, tf.errors.InvalidArgumentError)]


def invalid(message):
    """Returns the error for a wrong argument."""
    return tf.errors.InvalidArgumentError(None, None, message)


def not_found(message):
    return tf.errors.NotFoundError(None, None, message)


def unimplemented(message):
    return tf.errors.UnimplementedError(None, None, message)


def translated(error):
    """Returns TensorFlow's error for one of Tenon's."""
    for own, theirs in _CLASSES:
        if isinstance(error, own):
            return theirs(None, None, str(error))
    return tf.errors.InternalError(None, None, str(error))
