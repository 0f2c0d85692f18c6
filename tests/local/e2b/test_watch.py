"""Watching folders by the SDK: the events come to a callback, or are asked for."""

from collections.abc import Callable
from typing import Any

import e2b
import pytest

from tests.local.e2b.sdk import Api
from tests.waiting import eventually

type Watching = tuple[Callable[[], list[Any]], Callable[[], None]]


def watch(api: Api, sandbox: Any, path: str, **options: Any) -> Watching:
    """All events so far, and what ends the watch."""
    seen: list[Any] = []
    if api.name == "async":
        handle = sandbox.files.watch_dir(path, seen.append, timeout=60, **options)
        return (lambda: seen), handle.stop
    handle = sandbox.files.watch_dir(path, **options)

    def events() -> list[Any]:
        seen.extend(handle.get_new_events())
        return seen

    return events, handle.stop


def kinds(events: list[Any], name: str) -> set[str]:
    return {event.type.value for event in events if event.name == name}


def test_what_happens_in_a_folder_is_told(api: Api, sandbox: Any) -> None:
    sandbox.files.make_dir("watched")
    events, stop = watch(api, sandbox, "watched")
    sandbox.files.write("watched/a", "x")
    eventually(lambda: {"create", "write"} <= kinds(events(), "a"), "no create and write")
    sandbox.commands.run("chmod 600 watched/a; mv watched/a watched/b; rm watched/b")
    eventually(lambda: "remove" in kinds(events(), "b"), "no remove")
    assert {"chmod", "rename"} <= kinds(events(), "a")
    stop()


def test_folders_below_are_told_only_if_asked(api: Api, sandbox: Any) -> None:
    sandbox.files.make_dir("watched/below")
    flat, stop_flat = watch(api, sandbox, "watched")
    deep, stop_deep = watch(api, sandbox, "watched", recursive=True, include_entry=True)
    sandbox.files.write("watched/below/a", "xyz")
    eventually(lambda: "create" in kinds(deep(), "below/a"), "no event from below")
    entries = [event.entry for event in deep() if event.name == "below/a" and event.entry]
    assert entries
    assert entries[0].path == "/home/user/watched/below/a"
    sandbox.files.write("watched/mark", "")
    eventually(lambda: kinds(flat(), "mark"), "no event")
    assert not kinds(flat(), "below/a")
    stop_flat()
    stop_deep()


def test_what_is_not_a_folder_cannot_be_watched(api: Api, sandbox: Any) -> None:
    sandbox.files.write("file", "")
    with pytest.raises(e2b.FileNotFoundException):
        watch(api, sandbox, "nowhere")
    with pytest.raises(e2b.InvalidArgumentException):
        watch(api, sandbox, "file")
