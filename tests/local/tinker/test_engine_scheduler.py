"""The rule by which training and sampling share one thread."""

from concurrent.futures import Future

from hypothesis import given
from hypothesis import strategies as st

from rsigym.local.tinker.scheduler import Scheduler, Steps


class Bench:
    """A clock that work moves, and a running batch with a number of steps to do."""

    def __init__(self, sample_seconds: float = 1.0) -> None:
        self.now = 0.0
        self.sample_seconds = sample_seconds
        self.steps_left = 0
        self.log: list[str] = []

    @property
    def busy(self) -> bool:
        return self.steps_left > 0

    def step(self) -> None:
        self.steps_left -= 1
        self.now += self.sample_seconds
        self.log.append("sample")

    def fail_all(self, error: BaseException) -> None:
        raise AssertionError(error)

    def work(self, name: str, units: int, seconds: float) -> Steps[str]:
        for _ in range(units):
            self.now += seconds
            self.log.append(name)
            yield
        return name


@given(
    train_seconds=st.floats(0.01, 10), sample_seconds=st.floats(0.01, 10), turns=st.integers(1, 60)
)
def test_both_sides_get_equal_time_to_within_a_unit(
    train_seconds: float, sample_seconds: float, turns: int
) -> None:
    bench = Bench(sample_seconds)
    bench.steps_left = 100
    scheduler = Scheduler(bench, clock=lambda: bench.now)
    scheduler.add("a", Future[str](), bench.work("train", 100, train_seconds))
    for _ in range(turns):
        scheduler.turn()
    trained = bench.log.count("train") * train_seconds
    sampled = bench.log.count("sample") * sample_seconds
    assert abs(trained - sampled) <= max(train_seconds, sample_seconds) + 1e-6


def test_a_side_that_was_idle_has_saved_nothing_up() -> None:
    bench = Bench()
    scheduler = Scheduler(bench, clock=lambda: bench.now)
    scheduler.add("a", Future[str](), bench.work("train", 20, 1.0))
    for _ in range(10):
        scheduler.turn()
    bench.steps_left = 10
    bench.log.clear()
    for _ in range(10):
        scheduler.turn()
    assert bench.log.count("sample") == bench.log.count("train") == 5


def test_adapters_take_turns_and_each_keeps_its_order() -> None:
    bench = Bench()
    scheduler = Scheduler(bench, clock=lambda: bench.now)
    futures = [Future[str]() for _ in range(3)]
    scheduler.add("a", futures[0], bench.work("a1", 3, 1.0))
    scheduler.add("a", futures[1], bench.work("a2", 1, 1.0))
    scheduler.add("b", futures[2], bench.work("b1", 2, 1.0))
    while scheduler.busy:
        scheduler.turn()
    assert [name for name in bench.log if name[0] == "a"] == ["a1", "a1", "a1", "a2"]
    assert bench.log[:4] == ["a1", "b1", "a1", "b1"]
    assert [future.result() for future in futures] == ["a1", "a2", "b1"]


def test_work_that_is_cancelled_is_closed_and_the_next_goes_on() -> None:
    bench = Bench()
    scheduler = Scheduler(bench, clock=lambda: bench.now)
    first, second = Future[str](), Future[str]()
    scheduler.add("a", first, bench.work("first", 9, 1.0))
    scheduler.add("a", second, bench.work("second", 1, 1.0))
    scheduler.turn()
    first.cancel()
    while scheduler.busy:
        scheduler.turn()
    assert bench.log == ["first", "second"]
    assert second.result() == "second"
