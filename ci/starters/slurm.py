"""A Slurm of our own on the nodes of an emulated cluster: slurmctld on node 0, a slurmd on each. No systemd, no cgroups."""

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

PACKAGES = ["slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "munge", "libpmi0", "libpmi2-0"]
PROGRAMS = ["munged", "slurmctld", "slurmd", "srun", "sinfo"]

CONF = """
ClusterName=circulant
SlurmctldHost=n0
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={lab}/munge/socket
CredType=cred/munge
StateSaveLocation={lab}/state
SlurmdSpoolDir={lab}/spool-%n
SlurmctldPidFile={lab}/slurmctld.pid
SlurmdPidFile={lab}/slurmd-%n.pid
SlurmctldLogFile={lab}/slurmctld.log
SlurmdLogFile={lab}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
TopologyPlugin=topology/tree
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
SchedulerParameters=sched_interval=1
InactiveLimit=0
KillWait=2
PropagateResourceLimits=NONE
NodeName=n[0-{last}] CPUs=64 State=UNKNOWN
PartitionName=all Nodes=n[0-{last}] Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:64
"""

# Two nodes on a switch, and the third on another.
SWITCHES = """
SwitchName=s0 Nodes=n[0-1]
SwitchName=s1 Nodes=n2
SwitchName=top Switches=s[0-1]
"""


class Trouble(Exception):
    pass


def missing():
    return [p for p in PROGRAMS if not shutil.which(p)]


class Slurm:
    """`inside(node)`: the words in front of a command to run it on a node of the cluster."""

    def __init__(self, nodes, inside):
        self.nodes, self.inside = nodes, inside
        self.lab = Path(tempfile.mkdtemp(prefix="circulant-slurm-"))
        self.environment = {"SLURM_CONF": str(self.lab / "slurm.conf")}
        self.lab.chmod(0o755)  # munge refuses a socket in a folder that others may write to
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    def run(self, node, *command):
        done = subprocess.run(
            [*map(str, self.inside(node)), *map(str, command)], env={**os.environ, **self.environment}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=60,
        )
        if done.returncode:
            raise Trouble(f"{Path(command[0]).name}: {done.stdout.strip()[-300:] or done.returncode}")
        return done.stdout

    def version(self):
        """Slurm's own words: `slurm-wlm 22.05.8`."""
        return self.run(0, "srun", "--version").strip()

    def start(self):
        lab = self.lab
        for folder in ["munge", "state", "pmix", *(f"spool-n{i}" for i in range(self.nodes)), *(f"pmix-n{i}" for i in range(self.nodes))]:
            (lab / folder).mkdir()
        (lab / "munge").chmod(0o711)
        (lab / "slurm.conf").write_text(CONF.format(lab=lab, last=self.nodes - 1))
        (lab / "topology.conf").write_text(SWITCHES)
        (lab / "cgroup.conf").write_text("CgroupAutomount=no\nCgroupPlugin=cgroup/v1\n")
        (lab / "mpi.conf").write_text(f"PMIxCliTmpDirBase={lab}/pmix\n")
        key = lab / "munge" / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        munge = ["munged", "--force", f"--key-file={key}", f"--socket={lab}/munge/socket", f"--pid-file={lab}/munge/pid"]
        self.run(0, *munge, f"--log-file={lab}/munged.log", f"--seed-file={lab}/munge/seed")
        self.run(0, "slurmctld", "-c", "-f", lab / "slurm.conf")
        for i in range(self.nodes):
            # the folder of a PMIx step is named by user and job only: each node needs its own
            script = f"mount --bind {lab}/pmix-n{i} {lab}/pmix && exec slurmd -N n{i} -f {lab}/slurm.conf"
            self.run(i, "unshare", "-m", "sh", "-c", script)
        end = time.monotonic() + 60
        while self.run(0, "sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split().__len__() < self.nodes:
            if time.monotonic() > end:
                raise Trouble(f"the nodes of Slurm do not become idle: {self.run(0, 'sinfo', '-N', '-l')}")
            time.sleep(0.2)

    def stop(self):
        pids = []
        for file in [*self.lab.glob("*.pid"), self.lab / "munge" / "pid"]:
            try:
                pids.append(int(file.read_text()))
            except (OSError, ValueError):
                pass
        for signal, seconds in ((15, 5), (9, 5)):
            end = time.monotonic() + seconds
            while pids and time.monotonic() < end:
                for pid in list(pids):
                    try:
                        os.kill(pid, signal)
                    except ProcessLookupError:
                        pids.remove(pid)
                time.sleep(0.1)
        shutil.rmtree(self.lab, ignore_errors=True)
