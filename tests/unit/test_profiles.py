"""workflow/profiles: every key of each is an option of Snakemake or of its plugin."""

import re
from pathlib import Path

import pytest
import yaml
from snakemake import cli

from scripts.run import resources

PROFILES = Path(__file__).parents[2] / "workflow/profiles"
SHIPPED = {"cluster-generic": "cluster-generic", "kubernetes": "cluster-generic", "slurm": "slurm"}
"""Profile: its executor."""


def parsed(profile: Path):
    return cli.parse_args(["--profile", str(profile)])[1]


def test_these_are_the_profiles():
    assert sorted(path.name for path in PROFILES.iterdir()) == sorted(["default", *SHIPPED])


@pytest.mark.parametrize("name", SHIPPED)
def test_snakemake_takes_a_profile_with_its_executor(name):
    args = parsed(PROFILES / name)
    assert args.executor == SHIPPED[name]
    assert int(args.jobs) > 0
    groups = {"reference", "build-{model}", "verify-{node}", "measure-{node}"}
    assert args.group_components.keys() == groups


@pytest.mark.parametrize("name", SHIPPED)
def test_a_job_can_be_tried_until_it_has_what_its_limits_allow(name):
    assert parsed(PROFILES / name).retries >= resources.ATTEMPTS - 1


@pytest.mark.parametrize("name", SHIPPED)
def test_a_key_that_is_no_option_is_refused(name, tmp_path, capsys):
    keys = yaml.safe_load((PROFILES / name / "profile.yaml").read_text())
    (tmp_path / "profile.yaml").write_text(yaml.safe_dump(keys | {"executr": name}))
    with pytest.raises(SystemExit):
        parsed(tmp_path)
    assert "executr" in capsys.readouterr().err


RULE = re.compile(r"^(?:rule|use rule \w+ as) (\w+)", re.MULTILINE)


def timed() -> set[str]:
    """Return the rules whose jobs need a node to themselves."""
    found = set()
    for file in (PROFILES.parent / "rules").glob("*.smk"):
        _, *parts = RULE.split(file.read_text())
        rules = zip(parts[::2], parts[1::2], strict=True)
        found |= {rule for rule, body in rules if "**JOBS.alone_on(" in body}
    return found


@pytest.mark.parametrize(
    ("name", "key"), [("slurm", "set-resources"), ("cluster-generic", "set-threads")]
)
def test_what_is_timed_has_its_node_to_itself(name, key):
    keys = yaml.safe_load((PROFILES / name / "profile.yaml").read_text())
    assert keys[key].keys() == timed()
