"""One renderer for training and for serving, so that the two cannot disagree.

A conversation is written with the model's own chat template and cut where an assistant's reply
begins and ends: the template is rendered up to the reply, ready for it, and again with it. Each
piece is tokenized by itself, whether the conversation is trained on or served. So the tokens
before a trained reply are exactly the tokens that the model is prompted with, and the trained
tokens are exactly those it would have to sample, the end of its turn included.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rsigym.operations.training import TrainOn
from rsigym.platform.errors import BadCall, ServiceFailure
from rsigym.services.chat_messages import ChatMessage

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["Rendered", "Renderer", "check_parity"]

_PROBE: list[ChatMessage] = [
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "Hi"},
]


@dataclass(frozen=True, slots=True)
class Rendered:
    """A conversation as training sees it.

    Attributes:
        tokens: int32 [T].
        weights: float32 [T]; 1 where a token is trained, 0 where it is context.
    """

    tokens: np.ndarray
    weights: np.ndarray

    def cut(self, length: int) -> "Rendered":
        """The first `length` tokens."""
        return Rendered(self.tokens[:length], self.weights[:length])


@dataclass(frozen=True, slots=True)
class _Piece:
    """A run of text that is tokenized by itself; `reply` is the message it is the reply of."""

    text: str
    reply: int | None = None


class Renderer:
    """Renders with the chat template of `tokenizer`. Safe from any thread.

    Attributes:
        end_of_turn: The token that ends an assistant's reply.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerBase"):
        self._tokenizer = tokenizer
        if not tokenizer.chat_template:
            raise ServiceFailure(
                f"the tokenizer of {tokenizer.name_or_path} has no chat template: "
                "use an instruct model",
                side="model",
            )
        self.end_of_turn = self._find_end_of_turn()
        self._end_text = str(tokenizer.convert_ids_to_tokens(self.end_of_turn))

    @property
    def stop(self) -> list[int]:
        """The tokens at which sampling ends."""
        return [self.end_of_turn]

    @property
    def stop_text(self) -> str:
        """`stop` as text, for a request that has stop strings of its own."""
        return self._end_text

    def render_prompt(self, messages: Sequence[ChatMessage]) -> list[int]:
        """The tokens after which the model writes its reply to `messages`.

        Raises:
            BadCall: The chat template does not take these messages.
        """
        text = self._render(messages, ready=True)
        return [token for piece in self._pieces(text, messages) for token in self._encode(piece)]

    def render_training(self, messages: Sequence[ChatMessage], train_on: TrainOn) -> Rendered:
        """The conversation up to its last reply, with weights on the replies to be trained.

        Raises:
            BadCall: The chat template does not take these messages, or rewrites a reply once the
                conversation goes on, so that what is trained would not be what is served.
        """
        trained = _trained(messages, train_on)
        messages = messages[: trained[-1] + 1]
        pieces = list(self._pieces(self._render(messages), messages))
        _require_found(trained, {piece.reply for piece in pieces})
        if pieces[-1].reply is None:
            del pieces[-1]
        runs = [self._encode(piece) for piece in pieces]
        weights = [float(piece.reply in trained) for piece in pieces]
        return Rendered(
            np.concatenate([np.array(run, np.int32) for run in runs]),
            np.repeat(np.array(weights, np.float32), [len(run) for run in runs]),
        )

    def parse(self, tokens: Sequence[int]) -> str:
        """The content of the reply that was sampled as `tokens`, its end of turn or not."""
        text = self._tokenizer.decode(
            list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        assert isinstance(text, str)
        return text

    def _pieces(self, text: str, messages: Sequence[ChatMessage]) -> Iterator[_Piece]:
        """Cut `text`, which begins with `messages`, around each reply that it shows as served."""
        at = 0
        for index, message in enumerate(messages):
            if message["role"] != "assistant" or index == 0:
                continue
            prompt = self._render(messages[:index], ready=True)
            answered = self._render(messages[: index + 1])
            end = answered.rfind(self._end_text) + len(self._end_text)
            if end <= len(prompt) or not answered.startswith(prompt):
                continue
            if at <= len(prompt) and text.startswith(answered[:end]):
                yield _Piece(text[at : len(prompt)])
                yield _Piece(text[len(prompt) : end], reply=index)
                at = end
        if at < len(text):
            yield _Piece(text[at:])

    def _render(self, messages: Sequence[ChatMessage], *, ready: bool = False) -> str:
        from jinja2 import TemplateError

        try:
            text = self._tokenizer.apply_chat_template(
                [{"role": message["role"], "content": message["content"]} for message in messages],
                tokenize=False,
                add_generation_prompt=ready,
            )
        except (TemplateError, IndexError, ValueError, TypeError) as error:
            raise BadCall(
                f"the model's chat template does not take these messages: {error}"
            ) from error
        assert isinstance(text, str)
        return text

    def _encode(self, piece: _Piece) -> list[int]:
        return self._tokenizer.encode(piece.text, add_special_tokens=False, verbose=False)

    def _find_end_of_turn(self) -> int:
        """The first special token behind a reply, read off the template itself."""
        text = self._render(_PROBE)
        behind = text[text.rindex(_PROBE[-1]["content"]) + len(_PROBE[-1]["content"]) :]
        special = set(self._tokenizer.added_tokens_decoder)
        for token in self._tokenizer.encode(behind, add_special_tokens=False):
            if token in special:
                return token
        raise ServiceFailure(
            f"the chat template of {self._tokenizer.name_or_path} does not end a reply with a "
            "special token, so a model cannot learn to stop",
            side="model",
        )


def _trained(messages: Sequence[ChatMessage], train_on: TrainOn) -> list[int]:
    replies = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
    if not replies:
        raise BadCall("no message is the assistant's, so there is nothing to train on")
    return replies[-1:] if train_on == "last_assistant_message" else replies


def _require_found(trained: Sequence[int], found: set[int | None]) -> None:
    if trained[0] == 0:
        raise BadCall("messages[0] is the assistant's, but a reply needs something to answer")
    if trained[-1] not in found:
        raise BadCall(
            "the model's chat template writes something else before a reply than it asks for a "
            "reply with, so what is trained would not be what is served: use another model"
        )
    if not found.issuperset(trained):
        raise BadCall(
            "the model's chat template rewrites a reply once the conversation goes on: "
            "set train_on_what to last_assistant_message, one reply a record"
        )


def check_parity(renderer: Renderer, messages: Sequence[ChatMessage], train_on: TrainOn) -> None:
    """Check one record: each trained run follows exactly what serving would prompt with.

    Raises:
        ServiceFailure: It does not; both are in the details as `trained` and `served`.
    """
    rendered = renderer.render_training(messages, train_on)
    tokens: list[int] = rendered.tokens.tolist()
    edges = np.flatnonzero(np.diff(rendered.weights, prepend=0.0, append=0.0)).tolist()
    for index, start in zip(_trained(messages, train_on), edges[::2], strict=True):
        prompt = renderer.render_prompt(messages[:index])
        if prompt != tokens[:start]:
            raise ServiceFailure(
                f"message {index} would be trained after other tokens than it is served after",
                side="platform",
                trained=list(tokens[:start]),
                served=list(prompt),
            )
