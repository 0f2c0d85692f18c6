"""What the local Tinker server says when it will not do what a request asks."""

__all__ = ["Refusal"]


class Refusal(Exception):
    """The caller's mistake: answered as `status` with `message`, or as a failed future.

    Args:
        status: The HTTP status where the request is refused at once. Always 4xx: the SDK repeats
            any 5xx, 501 included, for five minutes before it shows the message to its user.
        message: One sentence that says what to do.
    """

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status
        self.message = message
