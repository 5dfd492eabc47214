"""together: how many programs are compiled together, given how others of their kind have ended."""

from pathlib import Path

from scripts.features.operators.batch import together
from scripts.features.operators.batch.batch_program import Program
from scripts.features.operators.batch.together import Queue

ADD = """\
func.func @main(%arg0: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0)>]}
  %1 = arith.addf %0, %arg0 : tensor<4x5xf32>
}
"""


def programs(count: int, text: str = ADD, name: str = "p") -> list[Program]:
    return [Program(f"{name}{n}", Path(f"{n}.mlir"), Path(f"{n}.txt"), text) for n in range(count)]


def test_a_kind_is_operations_and_types_without_numbers():
    other = ADD.replace("4x5", "77x1").replace("%0", "%10")
    assert together.kind(ADD) == together.kind(other)
    assert together.kind(ADD) != together.kind(ADD.replace("f32", "f16"))
    assert together.kind(ADD) != together.kind(ADD.replace("addf", "mulf"))
    assert together.kind(ADD) != together.kind(ADD.replace("4x5", "4x0"))


def test_a_module_grows_when_programs_of_its_kind_compile():
    queue = Queue(programs(100), 32)
    sizes = []
    while group := queue.take():
        sizes.append(len(group))
        for program in group:
            queue.ended(program, failed=False)
    assert sizes == [24, 32, 32, 12]


def test_programs_of_a_kind_that_always_fails_are_taken_one_by_one():
    queue = Queue(programs(30), 32)
    queue.ended(queue.take()[0], failed=True)
    while group := queue.take():
        assert len(group) == 1
        queue.ended(group[0], failed=True)


def test_one_kind_does_not_make_the_modules_of_another_smaller():
    odd = programs(10, ADD.replace("addf", "divf"), "odd")
    queue = Queue([*odd, *programs(40)], 32)
    for program in odd[:3]:
        queue.ended(program, failed=True)
    sizes = []
    while group := queue.take():
        sizes.append(len(group))
        for program in group:
            queue.ended(program, failed=program.name.startswith("odd"))
    assert sorted(sizes) == [1] * 10 + [16, 24]


def test_those_that_are_put_back_come_first_and_chosen_modules_before_them():
    queue = Queue(programs(60), 32)
    first = queue.take()
    queue.put_back(first[3:])
    queue.next_are(first[:1], first[1:3])
    assert [queue.take(), queue.take()] == [first[:1], first[1:3]]
    assert queue.take()[:3] == first[3:6]


def test_every_program_is_taken_once():
    given = [*programs(50), *programs(7, ADD.replace("addf", "divf"), "odd")]
    queue, taken = Queue(given, 32), []
    while group := queue.take():
        taken += group
    assert sorted(p.name for p in taken) == sorted(p.name for p in given)
