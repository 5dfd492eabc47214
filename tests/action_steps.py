"""Runs the steps of a composite action of GitHub one by one, with files in place of `$GITHUB_OUTPUT` and the like."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

SHELL = ("bash", "--noprofile", "--norc", "-eo", "pipefail")
"""What `shell: bash` is."""


@dataclass
class Steps:
    """The steps of an action. `inputs`: those that are not the default. `event`: the context `github.event`. `used`: outputs of steps that use
    other actions, by the id of the step."""

    action: Path
    workspace: Path
    temp: Path
    inputs: Mapping[str, str]
    event_name: str = "push"
    event: Mapping[str, Any] = field(default_factory=dict)
    used: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    ran: dict[str, subprocess.CompletedProcess[str]] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """What the steps have written to the summary of the job."""
        path = self.temp / "summary"
        return path.read_text() if path.exists() else ""

    def run(self) -> int:
        """Run the steps until one fails. Return its exit code, or 0."""
        declared = yaml.safe_load((self.action / "action.yml").read_text())
        self.temp.mkdir(parents=True, exist_ok=True)
        inputs = {name: str(one.get("default", "")) for name, one in declared["inputs"].items()}
        contexts = {
            "inputs": inputs | dict(self.inputs),
            "github": {
                "action_path": str(self.action),
                "event_name": self.event_name,
                "event": self.event,
                "token": "token",
            },
            "runner": {"temp": str(self.temp), "os": "Linux"},
        }
        for number, step in enumerate(declared["runs"]["steps"]):
            name = step.get("id", str(number))
            context = contexts | {"steps": {one: {"outputs": out} for one, out in self.outputs.items()}}  # fmt: skip
            if "uses" in step:
                self.outputs[name] = dict(self.used.get(name, {}))
                continue
            if "if" in step and not expression(step["if"], context):
                continue
            done = self._run(step, name, context)
            self.ran[step["name"]] = done
            if done.returncode:
                return done.returncode
        return 0

    def _run(
        self, step: Mapping[str, Any], name: str, context: Mapping[str, Any]
    ) -> subprocess.CompletedProcess[str]:
        files = {word: self.temp / word.lower() for word in ("GITHUB_OUTPUT", "GITHUB_PATH")}
        files["GITHUB_OUTPUT"].write_text("")
        path = (
            files["GITHUB_PATH"].read_text().splitlines() if files["GITHUB_PATH"].exists() else []
        )
        env = {
            **os.environ,
            **{word: str(file) for word, file in files.items()},
            "GITHUB_STEP_SUMMARY": str(self.temp / "summary"),
            "GITHUB_WORKSPACE": str(self.workspace),
            "RUNNER_TEMP": str(self.temp),
            **self.env,
            **{key: filled(str(value), context) for key, value in step.get("env", {}).items()},
        }
        env["PATH"] = os.pathsep.join([*reversed(path), env["PATH"]])
        script = self.temp / "step.sh"
        script.write_text(filled(step["run"], context))
        done = subprocess.run([*SHELL, str(script)], cwd=self.workspace, env=env, capture_output=True, text=True)  # fmt: skip
        lines = (line.partition("=") for line in files["GITHUB_OUTPUT"].read_text().splitlines())
        self.outputs[name] = {key: value for key, _, value in lines}
        return done


def filled(text: str, context: Mapping[str, Any]) -> str:
    """A text with the values of its expressions."""
    return re.sub(r"\$\{\{(.*?)\}\}", lambda match: str(expression(match[1], context)), text)


def expression(text: str, context: Mapping[str, Any]) -> Any:
    """The value of an expression of `&&`, `||`, `==`, `!=` and names; "" for a name that has none."""

    def value(match: re.Match[str]) -> str:
        found: Any = context
        for part in match[0].split("."):
            found = found.get(part, "") if isinstance(found, Mapping) else ""
        return repr(found)

    words = re.sub(r"'[^']*'|[a-z_][\w-]*(?:\.[\w-]+)+", lambda m: m[0] if m[0][0] == "'" else value(m), text)  # fmt: skip
    words = words.replace("&&", " and ").replace("||", " or ").replace("!=", " != ")
    return eval(words, {"__builtins__": {}}, {"always": lambda: True})  # noqa: S307 - of action.yml
