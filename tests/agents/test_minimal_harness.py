"""The starting harness: a short loop of model and shell."""

from pathlib import Path

from tests.agents.harness_bench import MINIMAL, SYSTEM, Endpoint, run


def test_a_reply_without_commands_is_the_answer(tmp_path: Path):
    endpoint = Endpoint(["It is 42."])
    ended = run(MINIMAL, endpoint, tmp_path, "What is 6 * 7?\n")
    assert (ended.status, ended.answer) == (0, "It is 42.")
    (request,) = endpoint.asked
    assert request["model"] == "some/model"
    assert request["temperature"] == 0
    assert request["messages"] == [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": "What is 6 * 7?"},
    ]
    said = [(step.source, step.message) for step in ended.trajectory.steps]
    assert said == [("system", SYSTEM), ("user", "What is 6 * 7?"), ("agent", "It is 42.")]


def test_commands_are_run_and_their_output_shown(tmp_path: Path):
    endpoint = Endpoint(["Look:\n```sh\necho out; echo err >&2; exit 3\n```", "done"])
    ended = run(MINIMAL, endpoint, tmp_path)
    assert ended.answer == "done"
    assert endpoint.asked[1]["messages"][2:] == [
        {"role": "assistant", "content": endpoint.replies[0]},
        {"role": "user", "content": "Output:\nout\nerr\n\nexit status 3"},
    ]
    observation = ended.trajectory.steps[2].observation
    assert observation is not None
    assert observation.results[0].content == "out\nerr\n\nexit status 3"


def test_an_answer_that_the_model_wrote_itself_stays(tmp_path: Path):
    endpoint = Endpoint(["```sh\necho 42 > answer.txt\n```", "I wrote it."])
    assert run(MINIMAL, endpoint, tmp_path).answer == "42\n"


def test_a_model_that_never_stops_is_asked_a_few_times_only(tmp_path: Path):
    endpoint = Endpoint(["```sh\ntrue\n```"])
    ended = run(MINIMAL, endpoint, tmp_path)
    assert ended.status == 0
    assert len(endpoint.asked) == 3
    assert len(ended.trajectory.steps) == 5


def test_an_endpoint_that_refuses_ends_the_harness_with_its_words(tmp_path: Path):
    ended = run(MINIMAL, Endpoint([], status=400), tmp_path)
    assert ended.status != 0
    assert ended.answer is None
    assert "the model answered 400" in ended.stderr
    assert "the prompt is too long" in ended.stderr
    assert [step.source for step in ended.trajectory.steps] == ["system", "user"]


def test_the_answer_goes_where_the_instruction_says(tmp_path: Path):
    instruction = "Answer with the repaired text only, in sub/report.md.\n\nSay it in other.txt.\n"
    files = {"sub/report.md": "broken"}
    ended = run(MINIMAL, Endpoint(["repaired"]), tmp_path, instruction, files)
    assert (ended.work / "sub" / "report.md").read_text() == "repaired"
    assert ended.answer is None


def test_what_is_said_around_a_code_block_is_no_part_of_the_answer(tmp_path: Path):
    instruction = "Answer with the code only, in answer.txt.\n\nSay it.\n"
    endpoint = Endpoint(["Here it is:\n```\nx = 1\n```\nThat is all."])
    assert run(MINIMAL, endpoint, tmp_path, instruction).answer == "x = 1\n"


def test_a_block_without_a_language_is_commands_where_no_file_is_named(tmp_path: Path):
    endpoint = Endpoint(["```\ntouch made\n```", "Done."])
    ended = run(MINIMAL, endpoint, tmp_path, "Answer with shell commands only.\n\nMake it.\n")
    assert (ended.work / "made").exists()


def test_what_lies_there_is_printed_for_who_reads_the_log(tmp_path: Path):
    files = {"people.txt": "Anna is here.\n", "skills/a/SKILL.md": "x" * 9000}
    ended = run(MINIMAL, Endpoint(["1"]), tmp_path, files=files)
    assert ended.stdout.startswith(
        "==> people.txt <==\nAnna is here.\n\n==> skills/a/SKILL.md <==\n"
    )
    assert len(ended.stdout) < 8500
