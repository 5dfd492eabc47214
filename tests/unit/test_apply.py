"""apply: a run goes on without patches that do not fit, if that is safe, and prints a warning."""

import asyncio
import logging
from types import SimpleNamespace

import pytest
import snakemake
import snakemake.api
from snakemake.persistence import PersistenceBase
from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry

from scripts.run.snakemake import executors
from scripts.run.snakemake.apply import Patches


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plugins = ExecutorPluginRegistry().plugins
    for plugin in plugins.values():  # put back after the test
        monkeypatch.setattr(plugin, "executor", plugin.executor)


@pytest.fixture
def said(caplog):
    """Warnings so far."""
    return lambda: [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


@pytest.fixture
def newer(monkeypatch):
    monkeypatch.setattr(snakemake, "__version__", "9.28.0")


class Workflow(SimpleNamespace):
    """What of a Snakemake workflow is used, of a run on this machine or on a cluster."""

    def __init__(self, cluster: bool = False, on_node: bool = False, retries: int = 2) -> None:
        super().__init__(
            remote_exec=on_node,
            resource_settings=SimpleNamespace(nodes=3 if cluster else None, cores=2),
            executor_plugin=None,
            executor_settings=SimpleNamespace(),
            execution_settings=SimpleNamespace(retries=retries),
            scheduler=SimpleNamespace(
                job_rate_limiter="limit",
                _open_jobs=None,
                resources={"_cores": 2},
                global_resources={"_cores": 2},
            ),
            cores=2,
            global_resources={"_cores": 2},
            parent_groupids={},
        )
        self.cluster, self.executor = cluster, "cluster-generic"

    def register_resource(self, name, value):
        self.global_resources[name] = value

    def execute(self) -> None:
        """The rules are read: the executor is known."""
        settings = SimpleNamespace(non_local_exec=self.cluster)
        self.executor_plugin = SimpleNamespace(name=self.executor, common_settings=settings)
        if self.cluster:
            self.scheduler.job_rate_limiter = None


def run(workflow) -> Patches:
    """A run up to its first job."""
    patches = Patches(workflow, logging.getLogger("run"))
    patches.side_by_side(building=4)
    patches.name_group("measure-a", known_as="measure-{node}")
    workflow.execute()
    patches.start()
    return patches


def test_a_local_run_has_no_limit_on_job_starts_and_says_nothing(said):
    workflow = Workflow()
    patches = run(workflow)
    assert workflow.scheduler.job_rate_limiter is None
    assert not patches.submits
    assert said() == []


def test_with_a_newer_snakemake_a_local_run_goes_on_and_says_once_what_is_off(newer, said):
    workflow = Workflow()
    patches = Patches(workflow, logging.getLogger("run"))
    (line,) = said()  # a dry run comes no further
    assert line.startswith("switched off: no limit on job starts (it is written for Snakemake")
    assert "this is 9.28.0). Without it, after some hundred jobs the scheduler" in line
    workflow.execute()
    patches.start()
    assert workflow.scheduler.job_rate_limiter == "limit"
    assert len(said()) == 1


def test_a_run_with_a_gate_says_where_it_cannot_be_stopped(said, newer):
    Patches(Workflow(), logging.getLogger("gate")).stopping(pytest.fail)(["a"])
    assert said()[-1].startswith("switched off: stop after a row (it is written for")


def test_a_local_run_is_refused_while_jobs_of_a_cluster_may_be_left():
    executors.NOTES.parent.mkdir(parents=True)
    executors.NOTES.write_text("11\n")
    with pytest.raises(WorkflowError, match="give its command again"):
        run(Workflow())


def test_a_run_on_a_cluster_applies_all_and_says_nothing(said):
    workflow = Workflow(cluster=True)
    patches = run(workflow)
    assert patches.submits
    assert said() == []
    assert workflow.global_resources == {"_cores": None, "building": 4}
    assert workflow.parent_groupids == {"measure-a": "measure-{node}"}
    executor = ExecutorPluginRegistry().get_plugin("cluster-generic").executor
    assert issubclass(executor, executors.Submitting)
    assert executor.cores.fget(None) == "all"
    assert executors.NOTES.exists()
    assert patches.may_submit
    patches.end()
    assert not executors.NOTES.exists()


def test_with_a_newer_snakemake_a_run_on_a_cluster_stops_before_any_work(newer, said):
    before = ExecutorPluginRegistry().get_plugin("cluster-generic").executor
    with pytest.raises(WorkflowError) as error:
        run(Workflow(cluster=True))
    assert "patches of Snakemake: it is written for Snakemake ==9.27.*" in str(error.value)
    assert "of another configuration. Install snakemake==9.27.*" in str(error.value)
    assert not executors.NOTES.exists()
    assert ExecutorPluginRegistry().get_plugin("cluster-generic").executor is before


@pytest.mark.parametrize("plugin", ["cluster-generic", "slurm", "local", "dryrun", "touch"])
def test_executors_of_clusters_alone_are_subclassed_and_only_once(plugin):
    plugin = ExecutorPluginRegistry().get_plugin(plugin)
    before = plugin.executor
    for _ in range(2):
        Patches(Workflow(), logging.getLogger("run"))
    wanted = (executors.Submitting, before)
    remote = plugin.common_settings.non_local_exec
    assert plugin.executor.__mro__[1:3] == wanted if remote else plugin.executor is before


def test_a_stage_on_a_node_is_refused_where_it_would_share_the_node(newer):
    with pytest.raises(WorkflowError, match="measurements may disturb each other"):
        Patches(Workflow(on_node=True), logging.getLogger("run"))


def test_too_few_attempts_are_refused():
    with pytest.raises(WorkflowError, match=r"2 attempt\(s\).*set retries: 2 or more"):
        run(Workflow(cluster=True, retries=1))


@pytest.mark.parametrize("name", [None, "of-this-run"])
def test_a_slurm_executor_whose_runs_have_no_name_is_refused(name):
    workflow = Workflow(cluster=True)
    workflow.executor = "slurm"
    patches = Patches(workflow, logging.getLogger("run"))
    ExecutorPluginRegistry().get_plugin("slurm").executor.notes.name = name
    workflow.execute()
    if name is None:
        with pytest.raises(WorkflowError, match="the executor slurm gives its runs no name"):
            patches.start()
    else:
        patches.start()
    assert executors.NOTES.exists() == (name is not None)


def test_a_run_on_a_cluster_is_refused_beside_jobs_of_an_earlier_one():
    executors.NOTES.parent.mkdir(parents=True)
    executors.NOTES.write_text("11\n")
    workflow = Workflow(cluster=True)
    workflow.executor_settings = SimpleNamespace(status_cmd="echo running #", cancel_cmd="bkill")
    with pytest.raises(WorkflowError, match="bkill 11"):
        run(workflow)
    assert executors.NOTES.read_text() == "11\n"


def test_outputs_stay_marked_on_a_node_until_the_submitting_snakemake_records_them(monkeypatch):
    monkeypatch.setattr(PersistenceBase, "finished", PersistenceBase.finished)
    persistence = SimpleNamespace(_unmark_incomplete=pytest.fail, _clear_cache=lambda: None)
    Patches(Workflow(on_node=True), logging.getLogger("run"))
    asyncio.run(PersistenceBase.finished(persistence, SimpleNamespace(output=["a"])))
