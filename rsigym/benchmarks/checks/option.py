"""Passes if the answer names the right option and no other."""

import re
from typing import Any

from reward import decide, text_of


def passes(expected: Any) -> bool:
    answer = (text_of("answer.txt") or "").lower()
    named = [
        option
        for option in expected["options"]
        if re.search(rf"(?<!\w){re.escape(option.lower())}(?!\w)", answer)
    ]
    return named == [expected["right"]]


decide(passes)
