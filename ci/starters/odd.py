"""What goes wrong, or looks as if it did: launchers inside others, closed descriptors, missing libraries, lies."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import lib
from lib import Case, first_error

from .starters import ENDINGS, free_port


def left_behind(running, seconds=30):
    """The processes of a case that do not go away by themselves."""
    end = time.monotonic() + seconds
    while (left := sorted(running.pids())) and time.monotonic() < end:
        time.sleep(0.05)
    return left


def oks(out, size, way=""):
    return sum(1 for line in out.splitlines() if "ok: " in line and f" of {size} by {way}" in line)


def pmix_folder():
    """The folder that the system's libpmix has for itself, or None."""
    for line in subprocess.run(["/sbin/ldconfig", "-p"], stdout=subprocess.PIPE, text=True).stdout.splitlines():
        name, _, path = line.strip().partition(" => ")
        if name.startswith("libpmix.so.2 ") and "pmix" in os.path.dirname(real := os.path.realpath(path)):
            return os.path.dirname(real)
    return None


class Odd:
    def __init__(self, report, ground, there, ends):
        self.report, self.ground, self.there, self.ends = report, ground, there, ends
        self.tool = lib.tool()

    def has(self, *names):
        missing = [name for name in names if name not in self.there]
        if missing:
            self.report.skip(f"an odd case: there is no {', '.join(missing)}")
        return not missing

    def line(self, name, n, *program, nodes=1):
        """A command of the starter `name`, and its environment."""
        starter = self.there[name]
        return self.ground.place(starter, nodes, *starter.words(n, nodes, list(program)))

    def case(self, title, line, check, environment=None, limit=600):
        """`line`: words, or words and environment. `check(code, out)`: None, or what is wrong."""
        words, env = line if isinstance(line, tuple) else (line, {})

        def once():
            with Case(words, limit, {**env, **(environment or {})}) as running:
                code, out, seconds = running.finish()
                left = left_behind(running)
            wrong = "over the time limit" if code is None else f"left behind: {left}" if left else check(code, out)
            return f"odd: {title}", seconds, wrong, words, out
        self.report.attempt(once)

    def error(self, title, line, words, environment=None, limit=600):
        """Must fail, and say all these words."""
        def check(code, out):
            if code == 0:
                return f"exit code 0: {first_error(out)}"
            lacking = [word for word in words if word not in out]
            return f"does not say {lacking}: {first_error(out)}" if lacking else None
        self.case(title, line, check, environment, limit)

    def fine(self, title, line, count, size, way, environment=None):
        def check(code, out):
            got = oks(out, size, way)
            return None if (code, got) == (0, count) else f"exit code {code}, {got} of {count} right: {first_error(out)}"
        self.case(title, line, check, environment)

    # --- the environment ------------------------------------------------------------------------------------------

    def environment(self):
        for title, variables, words in [
            ("PMI_FD set but closed", {"PMI_FD": "77", "PMI_RANK": "0", "PMI_SIZE": "4"}, ["PMI_FD=77 is not an open socket", "PMI_SIZE=4"]),
            ("SLURM_NTASKS=4 without PMI", {"SLURM_NTASKS": "4", "SLURM_PROCID": "2"}, ["SLURM_NTASKS=4", "srun --mpi=pmi2"]),
            ("variables copied from a dead mpirun",
             {"PMIX_NAMESPACE": "1", "PMIX_RANK": "0", "PMIX_SERVER_URI41": "1.0;tcp4://127.0.0.1:9", "OMPI_COMM_WORLD_SIZE": "4"},
             ["a PMIx launcher started us", "CIRCULANT_LAUNCHER=single"]),
            ("half of our own variables", {"CIRCULANT_RANK": "0", "CIRCULANT_SIZE": "2"}, ["CIRCULANT_ROOT=\"\" is not host:port"]),
            ("PALS without its library", {"PALS_RANKID": "0", "CIRCULANT_LIBPMI": "libnone.so"}, ["PALS", "cray-pmi", "libnone.so"]),
        ]:
            self.error(title, [self.ends], words, variables)

    def libraries(self):
        if self.has("openmpi4"):
            self.error("no libpmix", self.line("openmpi4", 2, self.ends), ["libnone.so.2", "libpmix2", "srun --mpi=pmi2"],
                       {"CIRCULANT_LIBPMIX": "libnone.so.2"})
            folder = pmix_folder()
            if os.geteuid() == 0 and folder:
                hide = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none "$1" && exec "$0"', self.ends, folder]
                self.error("libpmix is not installed", self.line("openmpi4", 2, *hide), ["libpmix.so.2: cannot open", "Debian: libpmix2"])
            else:
                self.report.skip("an odd case: the folder of libpmix cannot be hidden from the ranks")
        if self.has("srun-none"):
            self.error("srun without a plugin and without libpmi", self.line("srun-none", 2, self.ends),
                       ["libnone.so", "srun --mpi=pmi2", "libpmi0"], {"CIRCULANT_LIBPMI": "libnone.so"})

    # --- lies -----------------------------------------------------------------------------------------------------

    def lies(self):
        if not self.has("hydra4"):
            return
        for launcher in ("hydra4", "circulant"):
            # of two ranks 1, which one notices first differs
            for what, words in [("PMI_SIZE=4", ["says that the job has 3 ranks to rank 0, and 4 to us"]), ("PMI_RANK=1", ["Error"])]:
                script = f'[ $PMI_RANK = 2 ] && export {what}; exec "$0"'
                line = self.line(launcher, 3, "sh", "-c", script, self.ends)
                self.error(f"{launcher} lies to one of three ranks: {what}", line, words, {"CIRCULANT_START_DEADLINE": "20"})

    # --- one in another -------------------------------------------------------------------------------------------

    def nests(self):
        own = [self.tool, "run", "-n", 3]
        if self.has("openmpi4"):
            self.fine("PMI inside PMIx: circulant run in mpirun", self.line("openmpi4", 2, *own, self.ends), 6, 3, "pmi1")
            inner = self.there["openmpi4"].words(3, 1, [self.ends])[0]
            self.fine("PMIx inside PMI: mpirun in circulant run", self.line("circulant", 2, *inner), 6, 3, "pmix")
        if self.has("openmpi4", "hydra4"):
            inner = self.there["hydra4"].words(3, 1, [self.ends])[0]
            self.fine("Hydra in mpirun", self.line("openmpi4", 2, *inner), 6, 3, "pmi1")
            inner = self.there["openmpi4"].words(3, 1, [self.ends])[0]
            self.fine("mpirun in Hydra", self.line("hydra4", 2, *inner), 6, 3, "pmix")
        self.fine("circulant run in a loop of our own variables", self.line("loop", 2, *own, self.ends), 6, 3, "pmi1")

    def allocation(self):
        """`circulant run` takes the nodes of an allocation, and srun for ssh."""
        if not self.has("srun-pmi2"):
            return
        for ending, words in ENDINGS.items():
            line = ["salloc", "-Q", "-N", 2, "-n", 4, "--overcommit", self.tool, "run", self.ends, *words]
            wanted, count = self.there["circulant"].codes[ending], 4 if ending == "normal" else 0

            def check(code, out):
                right = code in wanted and oks(out, 4, "pmi1") >= count
                return None if right else f"exit code {code}, {oks(out, 4, 'pmi1')} of 4 right: {first_error(out)}"
            self.case(f"circulant run in an allocation of Slurm: {ending}", self.ground.place(self.there["srun-pmi2"], 2, line, {}), check)

    def munge(self):
        """Ranks that srun starts and that take nothing of Slurm but its munge: rank 0's port on one node, no word."""
        if not self.has("srun-none"):
            return
        root = f"n0:{free_port()}"
        of_slurm = "CIRCULANT_RANK=$SLURM_PROCID CIRCULANT_SIZE=$SLURM_NTASKS exec"
        line = self.line("srun-none", 4, "sh", "-c", f'{of_slurm} "$0"', self.ends, nodes=2)
        socket = self.ground.slurm.lab / "munge" / "socket"
        ours = {"CIRCULANT_LAUNCHER": "env", "CIRCULANT_ROOT": root, "CIRCULANT_MUNGE": str(socket)}
        self.fine("munge in place of a word", line, 4, 4, "env", ours)
        self.error("munge that is not there", line, ["CIRCULANT_MUNGE is set, and munge gives no credential"], {**ours, "CIRCULANT_MUNGE": f"{socket}-2"})

    def switches(self):
        """Slurm tells the way to each node (`slurm.SWITCHES`)."""
        if not self.has("srun-pmi2"):
            return
        groups = "ranks by group of nodes, tapered 1:1: 0: 0-3, 1: 4-5"

        def check(code, out):
            got = oks(out, 6, "pmi1")
            return None if (code, got) == (0, 6) and groups in out else f"exit code {code}, {got} of 6 right, groups: {groups in out}: {first_error(out)}"
        self.case("the switches of Slurm are groups", self.line("srun-pmi2", 6, self.ends, nodes=3), check, {"CIRCULANT_LOG": "info"})

    # --- the rest -------------------------------------------------------------------------------------------------

    def names(self):
        folder = Path(tempfile.mkdtemp(prefix="circulant launch "))
        try:
            spaced = folder / "a program"
            shutil.copy(self.ends, spaced)
            for launcher in ("hydra4", "openmpi4", "circulant", "loop"):
                if self.has(launcher):
                    self.fine(f"a path with spaces: {launcher}", self.line(launcher, 2, spaced), 2, 2, "")
            if self.has("srun-pmi2"):
                words, env = self.there["srun-pmi2"].words(2, 2, [spaced])
                line = self.ground.place(self.there["srun-pmi2"], 2, [words[0], "-J", "a job; $(with) spaces", *words[1:]], env)
                self.fine("a job name with spaces: srun", line, 2, 2, "pmi1")
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def together(self):
        """Two jobs of each launcher at once on one node."""
        def once(name):
            with contextlib.ExitStack() as stack:
                cases = [stack.enter_context(Case(*self.together_line(name))) for _ in range(2)]
                done = [case.finish() for case in cases]
            wrong = next((f"exit code {code}: {first_error(out)}" for code, out, _ in done if code != 0 or oks(out, 4) != 4), None)
            return f"odd: two jobs at once: {name}", max(d[2] for d in done), wrong, cases[0].command, done[0][1] + done[1][1]

        for name in self.there:
            self.report.attempt(lambda: once(name))

    def together_line(self, name):
        words, env = self.line(name, 4, self.ends)
        return words, 600, env


def run(report, ground, there, ends):
    odd = Odd(report, ground, there, ends)
    for part in (odd.environment, odd.libraries, odd.lies, odd.nests, odd.allocation, odd.munge, odd.switches, odd.names, odd.together):
        part()
