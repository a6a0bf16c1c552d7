"""The command line as a whole: help, completion, refusals, failures and interrupts."""

import errno
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from limitlaw._checks import ArgumentError
from limitlaw.cli import app
from limitlaw.cli._app import _text_of
from limitlaw.cli._options import check_output_file, check_picture

COMMAND = [sys.executable, "-m", "limitlaw.cli"]


def commands(command, name="limitlaw"):
    """All commands with those within them, by their full names."""
    yield name, command
    for inner in getattr(command, "commands", {}).values():
        yield from commands(inner, f"{name} {inner.name}")


@pytest.mark.parametrize(("words", "option"), [(["law"], "--heads"), (["slr", "risk"], "--mu"), ([], "--version")])
def test_help_is_a_command_too(words, option):
    done = CliRunner().invoke(app, ["help", *words], env={"COLUMNS": "120"})
    assert done.exit_code == 0, done.output
    assert done.output.lstrip().startswith(" ".join(["Usage: limitlaw", *words]))
    assert option in done.output


def test_help_of_an_unknown_command_names_the_nearest():
    done = CliRunner().invoke(app, ["help", "lwa"])
    assert done.exit_code == 2
    assert "Did you mean 'law'?" in done.output


def test_shells_can_complete():
    assert "--install-completion" in CliRunner().invoke(app, ["--help"], env={"COLUMNS": "120"}).output
    # Typer takes the name of the program from sys.argv, and python -m has another than the script.
    script = "import sys; sys.argv[0] = 'limitlaw'; from limitlaw.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "_LIMITLAW_COMPLETE": "complete_bash", "COMP_WORDS": "limitlaw in", "COMP_CWORD": "1"},
    )
    assert done.stdout.split() == ["inspect"]


IMPERATIVES = re.compile(r"(Compute|Regenerate|Compare|Report|Open|Run|Write|Print|Show)\b")


@pytest.mark.parametrize(("name", "command"), [pytest.param(*pair, id=pair[0]) for pair in commands(get_command(app))])
def test_help_texts_are_sentences(name, command):
    assert IMPERATIVES.match(command.help), command.help
    assert command.help.rstrip().endswith(".")
    for parameter in command.params:
        if parameter.name not in ("help", "words") and "completion" not in parameter.name:
            assert re.match(r"[A-Zφ].*[.)]$", parameter.help), (name, parameter.name, parameter.help)


@pytest.mark.parametrize(("words", "saved"), [(["sweep"], True), (["status"], False)])
def test_an_interrupt_is_one_line(words, saved, tmp_path):
    (tmp_path / "wait.py").write_text("import time\nprint('waiting', flush=True)\ntime.sleep(60)\n")
    extra = ["--out", tmp_path / "out"] if saved else []
    process = subprocess.Popen(
        [*COMMAND, *words, "x", *map(str, extra), "--load", str(tmp_path / "wait.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "waiting\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=30)
    assert process.returncode == 130
    resume = " Finished results are saved; run the same command again to resume." if saved else ""
    assert error == f"limitlaw: Interrupted.{resume}\n"


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOENT, errno.ENOSPC])
def test_the_remedy_of_a_failure_names_no_option_of_another_command(number):
    text = _text_of(OSError(number, os.strerror(number), "x.csv"))
    assert text.startswith(f"x.csv: {os.strerror(number)}. ")
    assert "--" not in text


def test_files_that_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("folder.png").mkdir()
    for path, sentence in {
        ".": "--csv . is a folder. Give the name of a file.",
        "no/x.csv": "--csv no/x.csv is in a folder that does not exist. Make no first.",
    }.items():
        with pytest.raises(ArgumentError) as refused:
            check_output_file("csv", Path(path))
        assert str(refused.value) == sentence
        assert refused.value.argument == "csv"
    with pytest.raises(ArgumentError, match=r"--plot folder\.png is a folder"):
        check_picture(Path("folder.png"))
    with pytest.raises(ArgumentError, match=r"--plot x\.gif must end in \.pdf, \.png, \.svg\."):
        check_picture(Path("x.gif"))
    check_picture(Path("x.PNG"))
    check_picture(None)
