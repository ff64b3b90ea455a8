//! Nodes with a network of their own between them, whose links are cut or slow: an emulated cluster (ci/cluster), for one job.

use crate::job::{Job, unique};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The commands of the emulated cluster.
const CLUSTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../ci/cluster/cluster");
const RSH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../ci/cluster/rsh");
/// Where a cluster keeps the numbers of the processes that hold its namespaces.
const STATES: &str = "/run/circulant-cluster";
/// Of each link. Chosen: more than these programs need.
const RATE: &str = "1gbit";
/// What a slow link lets through: 2000 bytes at once, then 125 bytes a second, and no packet of more than 2000 bytes (most have up to 9000).
const SLOW: &str = "tbf rate 1kbit burst 2000 limit 32000000";
/// What it is before and after that.
const QUICK: &str = "tbf rate 1gbit burst 20000 limit 33554432";

/// It is up while this lives.
pub(crate) struct Cluster {
    name: String,
    nodes: u32,
}

fn ran(command: &mut Command) {
    let done = command.output().unwrap();
    assert!(done.status.success(), "{command:?}: {done:?}");
}

impl Cluster {
    /// Of the nodes of these ranks.
    pub(crate) fn up(nodes: &[u32]) -> Self {
        let nodes = nodes.iter().max().map_or(1, |last| last + 1);
        let cluster = Self { name: format!("chaos-{}-{}", std::process::id(), unique()), nodes };
        let mut up = Command::new(CLUSTER);
        up.args(["--name", &cluster.name, "up", &nodes.to_string(), "--rate", RATE]);
        // On a busy machine a node may not be there in time; what there is of it is gone then.
        if !up.output().unwrap().status.success() {
            ran(&mut up);
        }
        cluster
    }

    /// Has `job` start its ranks on these nodes, block by block.
    pub(crate) fn reach(&self, job: &mut Job, nodes: &[u32]) {
        let on = |node: u32| nodes.iter().filter(|&&other| other == node).count();
        let hosts: Vec<String> = (0..self.nodes).map(|node| format!("n{node}:{}", on(node))).collect();
        job.arguments(&["--launcher-exec", RSH, "--hosts", &hosts.join(",")]).env("CI_CLUSTER", &self.name);
    }

    /// Nothing passes the link of this node any more.
    pub(crate) fn cut(&self, node: u32) {
        self.ip(&["link", "set", "dev", &port(node), "down"]);
    }

    /// Hardly anything passes it, either way.
    pub(crate) fn slow(&self, node: u32) {
        self.shape(node, SLOW);
    }

    /// All passes it again.
    pub(crate) fn repair(&self, node: u32) {
        self.shape(node, QUICK);
        self.ip(&["link", "set", "dev", &port(node), "up"]);
    }

    /// The folders of the nodes that processes share memory by.
    pub(crate) fn shared_memory(&self) -> Vec<PathBuf> {
        let of = |node| PathBuf::from(format!("/proc/{}/root/dev/shm", self.holder(&format!("n{node}"))));
        (0..self.nodes).map(of).collect()
    }

    fn ip(&self, words: &[&str]) {
        ran(self.inside("bridge").arg("ip").args(words));
    }

    fn shape(&self, node: u32, how: &str) {
        let ends = [("bridge".to_owned(), port(node)), (format!("n{node}"), "eth0".to_owned())];
        for (space, device) in ends {
            let words = ["tc", "qdisc", "replace", "dev", &device, "root"];
            ran(self.inside(&space).args(words).args(how.split(' ')));
        }
    }

    fn holder(&self, space: &str) -> String {
        let file = Path::new(STATES).join(&self.name).join(format!("{space}.pid"));
        std::fs::read_to_string(file).unwrap().trim().to_owned()
    }

    /// A command in the network of a node, or of the bridge.
    fn inside(&self, space: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.holder(space), "-n", "--"]);
        command
    }
}

/// The bridge's end of a node's link.
fn port(node: u32) -> String {
    format!("p{node}.0")
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let down = Command::new(CLUSTER).args(["--name", &self.name, "down"]).output();
        if let Err(e) = down {
            eprintln!("cluster {}: {e}", self.name);
        }
    }
}
