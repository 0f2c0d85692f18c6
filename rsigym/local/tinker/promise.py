"""Keeping promises: a future stays cancellable until its work has come to an end.

A future that is settled is left as it is: a batch that breaks may break after some of its answers.
"""

from concurrent.futures import Future

__all__ = ["fail", "resolve"]


def resolve[T](future: Future[T], value: T) -> None:
    """Give the value, unless the one who asked has gone."""
    if not future.done() and future.set_running_or_notify_cancel():
        future.set_result(value)


def fail[T](future: Future[T], error: BaseException) -> None:
    """Give the error, unless the one who asked has gone."""
    if not future.done() and future.set_running_or_notify_cancel():
        future.set_exception(error)
