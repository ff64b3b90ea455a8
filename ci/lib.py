"""What the Python scripts in this folder share. Standard library only."""

import itertools
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MARK = "CI_CASE"  # an environment variable by which a case's processes are found again


def target():
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


def build():
    """The tool and the examples, as build_tool of lib.sh builds them."""
    words = ["--locked", "--quiet", "--profile", "test", "--bin", "circulant", "--examples"]
    subprocess.run(["cargo", "build", *words], cwd=ROOT, check=True)


def tool():
    """The circulant binary: $CI_TOOL, or built as `cargo test` builds it (optimised, with overflow checks)."""
    given = os.environ.get("CI_TOOL")
    if given:
        return given
    build()
    return str(target() / "debug" / "circulant")


def second_libfabric():
    """The environment that selects libfabric 2.5."""
    out = subprocess.run([ROOT / "ci" / "libfabric2"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return dict(word.split("=", 1) for line in out.splitlines() for word in shlex.split(line) if "=" in word)


class Case:
    """One command under a time limit, in a session of its own; `with` sees to it that nothing of it stays."""

    def __init__(self, command, limit, env=None):
        self.command, self.limit, self.mark = [str(c) for c in command], limit, uuid.uuid4().hex
        self.env = {**os.environ, **(env or {}), MARK: self.mark}

    def __enter__(self):
        self.begun = time.monotonic()
        self.process = subprocess.Popen(
            self.command, env=self.env, cwd=ROOT, text=True, errors="replace", stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )
        self.lines = []  # (time of arrival, line)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        return self

    def read(self):
        for line in self.process.stdout:
            self.lines.append((time.monotonic(), line.rstrip("\n")))

    def finish(self):
        """Waits for the end: (exit code or None when the limit passed, output, seconds)."""
        try:
            code = self.process.wait(max(0.1, self.limit - (time.monotonic() - self.begun)))
        except subprocess.TimeoutExpired:
            code = None
            self.kill()
        # the launcher is gone; what still holds its pipe is an orphan, which pids() finds
        self.reader.join(5)
        return code, "\n".join(line for _, line in self.lines), time.monotonic() - self.begun

    def pids(self):
        """The processes of this case, with their environment."""
        found = {}
        want = f"{MARK}={self.mark}".encode()
        for entry in os.scandir("/proc"):
            if entry.name.isdigit():
                try:
                    environ = Path(entry.path, "environ").read_bytes().split(b"\0")
                    dead = Path(entry.path, "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
                except OSError:
                    continue
                if want in environ and not dead:
                    found[int(entry.name)] = dict(
                        v.decode(errors="replace").split("=", 1) for v in environ if b"=" in v
                    )
        return found

    def ranks(self):
        """rank -> pid of the processes that a launcher gave a rank."""
        return {int(env["PMI_RANK"]): pid for pid, env in self.pids().items() if env.get("PMI_RANK", "").isdigit()}

    def kill(self):
        for pid in self.pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass

    def __exit__(self, *_):
        self.kill()
        self.process.wait()
        self.reader.join(5)


class Report:
    """Lines on standard output and, with everything that failed, in a log file; counts at the end."""

    def __init__(self, name):
        folder = target() / "ci-logs"
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{name}.cases.log"
        self.log = self.path.open("w")
        self.passed = self.failed = self.skipped = 0

    def say(self, text):
        print(text, flush=True)
        print(text, file=self.log, flush=True)

    def case(self, title, seconds, wrong, command=(), output=""):
        """`wrong` is None when the case passed, else what was wrong."""
        self.say(f"{'ok    ' if wrong is None else 'FAILED'} {seconds:6.1f} s  {title}")
        if wrong is None:
            self.passed += 1
            return
        self.failed += 1
        self.say(f"       {wrong}\n       {shlex.join(map(str, command))}")
        lines = output.splitlines()
        print("\n".join("       | " + line for line in lines), file=self.log, flush=True)
        for line in lines[-12:]:
            print("       | " + line[:300], flush=True)

    def attempt(self, case):
        """`case()` runs a case and gives (title, seconds, None or what is wrong, command, output), or None when it skipped it.
        One that fails is run once more (it may have lacked processor time beside others), and that is said; `step` of lib.sh
        lists these."""
        first = case()
        if first is None:
            return
        title, _, wrong, _, output = first
        if wrong is None:
            self.case(*first)
            return
        self.say(f"once more, alone: {title}: {wrong}")
        print("\n".join("       | " + line for line in output.splitlines()), file=self.log, flush=True)
        second = case()
        if second[2] is None:
            self.say(f"passed alone: {second[0]}")
        self.case(*second)

    def skip(self, reason, count=1):
        self.skipped += count
        self.say(f"skip: {reason}")

    def finish(self):
        self.say(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped")
        sys.exit(1 if self.failed else 0)


def covering(cases, names, cost, seed=1):
    """Some of the cases, so that each pair of values of two of these dimensions that meets at all meets in one of them. Greedy,
    most new pairs per second first. The seed is fixed: a run can be repeated."""
    pool = list(cases)
    random.Random(seed).shuffle(pool)
    covers = [({(a, c[a], b, c[b]) for a, b in itertools.combinations(names, 2)}, cost(c), c) for c in pool]
    open_pairs = set().union(*(c[0] for c in covers))
    chosen = []
    while open_pairs:
        best = max(covers, key=lambda c: len(c[0] & open_pairs) / (c[1] + 2.0))
        open_pairs -= best[0]
        chosen.append(best[2])
        covers = [c for c in covers if c[0] & open_pairs]
    return chosen


def first_error(output):
    """The most telling line of an output, for a one-line verdict."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for line in lines:
        if re.search(r"panicked|error|WRONG|refused|not ", line, re.IGNORECASE):
            return line[:200]
    return lines[-1][:200] if lines else "no output"
