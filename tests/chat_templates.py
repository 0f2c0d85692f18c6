"""Chat templates in the forms that models use, for the tiny model's tokenizer."""

__all__ = ["HERMES", "TAGGED", "THINKS", "THINKS_AT_ONCE", "UNKNOWN_CALLS"]

_TURN = "{{ '<|im_start|>' + message['role'] + '\n' }}"
_END = "{{ '<|im_end|>' + '\n' }}"
_ASK = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"

_TOOLS = (
    "{% if tools %}{{ '<|im_start|>system\nTools:' }}"
    "{% for tool in tools %}{{ '\n' + (tool | tojson) }}{% endfor %}" + _END + "{% endif %}"
)

_JSON_CALLS = (
    "{% for call in message['tool_calls'] or [] %}{% set f = call['function'] %}"
    "{{ '\n<tool_call>\n{\"name\": \"' + f['name'] + '\", \"arguments\": ' }}"
    "{{ f['arguments'] if f['arguments'] is string else (f['arguments'] | tojson) }}"
    "{{ '}\n</tool_call>' }}{% endfor %}"
)

_TAGGED_CALLS = (
    "{% for call in message['tool_calls'] or [] %}{% set f = call['function'] %}"
    "{{ '\n<tool_call>\n<function=' + f['name'] + '>\n' }}"
    "{% for key, value in f['arguments'].items() %}"
    "{{ '<parameter=' + key + '>\n' + (value if value is string else (value | tojson)) }}"
    "{{ '\n</parameter>\n' }}{% endfor %}{{ '</function>\n</tool_call>' }}{% endfor %}"
)


def _template(calls: str, thought: str = "", ask: str = _ASK, tools: str = _TOOLS) -> str:
    message = _TURN + thought + "{{ message['content'] }}" + calls + _END
    return tools + "{% for message in messages %}" + message + "{% endfor %}" + ask


_THOUGHT = (
    "{% if message['role'] == 'assistant' and message['reasoning_content'] %}"
    "{{ '<think>\n' + message['reasoning_content'] + '\n</think>\n\n' }}{% endif %}"
)
_ALWAYS_A_THOUGHT = (
    "{% if message['role'] == 'assistant' %}"
    "{{ '<think>\n' + (message['reasoning_content'] or '') + '\n</think>\n\n' }}{% endif %}"
)

HERMES = _template(_JSON_CALLS)
"""As Qwen 2.5 writes calls."""
TAGGED = _template(_TAGGED_CALLS)
"""As Qwen 3 Coder writes them."""
THINKS = _template(_JSON_CALLS, _THOUGHT)
"""As Qwen 3 thinks: where it likes to."""
THINKS_AT_ONCE = _template(
    _JSON_CALLS, _ALWAYS_A_THOUGHT, _ASK.replace("assistant\n", "assistant\n<think>\n")
)
"""As Qwen 3 Thinking does: the prompt begins the thought."""
UNKNOWN_CALLS = _template("{% if message['tool_calls'] %}{{ '[CALLS]' }}{% endif %}")
"""As Mistral writes calls, more or less."""
