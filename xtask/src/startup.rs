//! The start-up of a job on very many nodes, by a simulation of discrete events: the launcher's tree of agents, and on each node a server
//! that answers its ranks' requests one after another.
//!
//! The tree is the launcher's own (`setup::branches`), and what ranks ask is what wire-up asks (docs/launch.md). A node has one server, which does
//! one thing at a time (starts a process, answers a request, takes in a value), a link out and a link in, which carry one message at a time, and
//! cores, which processes need to begin. Nothing else takes time.

use circulant_core::schedule::{Circulant, MAX_P};
use circulant_launcher::message::FENCE_PIECE_PAIRS;
use circulant_launcher::setup::branches;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// What things take, in nanoseconds unless the name says otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    /// From the start of ssh to the greeting of the agent behind it. Chosen: what a site's ssh takes is the site's; 0.2 s is usual with keys.
    pub(crate) ssh_ns: u64,
    /// The server's part of starting a process, and what the process needs of a core until it asks for the first value: 1.7 ms together
    /// (docs/launch.md). How they divide is chosen: fork is the smaller part.
    pub(crate) fork_ns: u64,
    pub(crate) begin_ns: u64,
    /// Cores of a node. Chosen: one for each of 100 ranks.
    pub(crate) cores: usize,
    /// A request, from its reading to its answer: 15 µs where 1024 clients share two cores with the server (docs/launch.md).
    pub(crate) request_ns: u64,
    /// To take in a value of another node. Chosen: a key and a value of their own memory each, and an entry of a table.
    pub(crate) value_ns: u64,
    /// Bytes of a value with its key: an address, its check and its host.
    pub(crate) value_bytes: u64,
    /// Of a message between nodes. Chosen: TCP on Ethernet of 10 Gbit/s.
    pub(crate) latency_ns: u64,
    pub(crate) byte_ps: u64,
    /// Values that the launcher sends down in one message.
    pub(crate) piece_values: u64,
}

impl Costs {
    /// Each with its source above.
    pub(crate) const USUAL: Self = Self {
        ssh_ns: 200_000_000,
        fork_ns: 500_000,
        begin_ns: 1_200_000,
        cores: 100,
        request_ns: 15_000,
        value_ns: 500,
        value_bytes: 150,
        latency_ns: 20_000,
        byte_ps: 800,
        piece_values: FENCE_PIECE_PAIRS as u64,
    };

    fn carry_ns(&self, values: u64) -> u64 {
        values.saturating_mul(self.value_bytes).saturating_mul(self.byte_ps) / 1000
    }
}

/// The job: nodes, ranks on each, and agents that each launcher or agent starts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) nodes: usize,
    pub(crate) per_node: usize,
    pub(crate) fanout: usize,
}

/// What ranks do up to the next fence, and after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Phase {
    pub(crate) name: &'static str,
    /// Values that each rank puts and gets; and how many of those that it puts go to other nodes.
    pub(crate) puts: u64,
    pub(crate) gets: u64,
    pub(crate) far_puts: u64,
    /// Values that rank 0 gets beside these, and the first rank of each node. What they put then is one more.
    pub(crate) root_gets: u64,
    pub(crate) first_gets: u64,
    /// What the first rank of a node puts goes to other nodes; what rank 0 puts always does.
    pub(crate) first_is_far: bool,
}

impl Job {
    fn ranks(&self) -> u64 {
        self.nodes as u64 * self.per_node as u64
    }

    /// What wire-up asks (`src/comm/wireup`): of ranks with a node each, or of many on a node, which share memory. After each phase but the last is a
    /// fence.
    pub(crate) fn phases(&self) -> Vec<Phase> {
        let q = |ranks: u64| u64::from(Circulant::new(u32::try_from(ranks).unwrap_or(u32::MAX).max(1)).q());
        let (all, here) = (2 * q(self.ranks()), 2 * q(self.per_node as u64));
        let (nodes, locals) = (self.nodes as u64, self.per_node as u64);
        let near = |name, puts, gets| Phase { name, puts, gets, ..Phase::default() };
        let far = |name, gets| Phase { name, puts: 1, gets, far_puts: 1, ..Phase::default() };
        let last = near("neighbours", 0, all + 1);
        if self.per_node == 1 {
            let root = Phase { root_gets: nodes, ..near("settings; rank 0 reads where all are", 0, 1) };
            return vec![far("where ranks are", 0), root, far("addresses", 1), last];
        }
        let first =
            |name, first_is_far, gets| Phase { first_gets: locals, first_is_far, ..near(name, 0, gets) };
        vec![
            near("where ranks are", 1, 0),
            first("settings; the first rank reads where its node's are", true, 1),
            Phase { root_gets: nodes, ..near("rank 0 reads where all nodes' are", 0, 0) },
            near("memory of the node", 1, 1),
            far("its neighbours; addresses", here),
            first("the first rank reads its node's", false, 1),
            last,
        ]
    }
}

/// When the last rank had done each phase and, but of the last, passed its fence; before all, when the last process had begun. In nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) agents: u64,
    pub(crate) processes: u64,
    pub(crate) phases: Vec<u64>,
}

/// When the last request is answered of clients that make `gets` requests each, the next one when the last is answered. Servers handle a request
/// `handlings` times, with `apart_ns` between. With three it is for a value of another node: handled by the client's own server, by that node's, and by the
/// client's own again. As all nodes do the same, their servers are equally busy, and one is simulated for all.
pub(crate) fn answered(gets: &[u64], request_ns: u64, (handlings, apart_ns): (u64, u64)) -> u64 {
    let (mut free, mut end, mut left) = (0, 0, gets.to_vec());
    // By arrival, then in the order of coming.
    let mut queue: BinaryHeap<Reverse<(u64, u64, usize, u64)>> =
        (0..gets.len()).filter(|i| gets[*i] > 0).map(|i| Reverse((0, i as u64, i, handlings))).collect();
    let mut number = gets.len() as u64;
    while let Some(Reverse((arrival, _, client, handlings_left))) = queue.pop() {
        free = arrival.max(free) + request_ns;
        number += 1;
        if handlings_left > 1 {
            queue.push(Reverse((free + apart_ns, number, client, handlings_left - 1)));
            continue;
        }
        end = end.max(free);
        left[client] -= 1;
        if left[client] > 0 {
            queue.push(Reverse((free, number, client, handlings)));
        }
    }
    end
}

/// One node.
#[derive(Clone, Debug, Default)]
struct Node {
    above: Option<usize>,
    below: Vec<usize>,
    /// When its server, its link out and its link in are free.
    server: u64,
    out: u64,
    into: u64,
    /// Of the fence under way: what has come, and how many values with it.
    come: usize,
    values: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The agent is up.
    Up,
    /// All ranks of the node have done a phase.
    Done,
    /// All ranks of a branch below are in the fence, with the number of values that they put.
    Fenced(u64),
    /// All ranks of the job are in the fence: the number of values in this message, and whether it is the last.
    Released(u64, bool),
}

/// A job under way.
struct Run<'a> {
    job: Job,
    costs: &'a Costs,
    phases: Vec<Phase>,
    nodes: Vec<Node>,
    /// By time, then by number.
    events: BinaryHeap<Reverse<(u64, u64, usize, Event)>>,
    number: u64,
    /// The phase that each node's ranks do.
    at: Vec<usize>,
    times: Times,
}

/// The nodes in the launcher's tree; the launcher is on node 0.
fn tree(nodes: usize, fanout: usize) -> Vec<Node> {
    let mut all = vec![Node::default(); nodes];
    let mut parts: VecDeque<Vec<usize>> = VecDeque::from([(0..nodes).collect()]);
    while let Some(part) = parts.pop_front() {
        let Some((&first, rest)) = part.split_first() else { continue };
        for branch in branches(rest, fanout) {
            all[branch[0]].above = Some(first);
            all[first].below.push(branch[0]);
            parts.push_back(branch);
        }
    }
    all
}

/// Starts a job under `circulant run`.
pub(crate) fn start(job: Job, costs: &Costs) -> Times {
    let phases = job.phases();
    let times = Times { phases: vec![0; phases.len()], ..Times::default() };
    let (nodes, at) = (tree(job.nodes, job.fanout), vec![0; job.nodes]);
    let mut run = Run { job, costs, phases, nodes, events: BinaryHeap::new(), number: 0, at, times };
    run.push(0, 0, Event::Up);
    while let Some(Reverse((now, _, node, event))) = run.events.pop() {
        match event {
            Event::Up => run.up(now, node),
            Event::Done => run.done(now, node),
            Event::Fenced(values) => run.fenced(now, node, values, values * costs.value_ns),
            Event::Released(values, last) => run.released(now, node, values, last),
        }
    }
    run.times
}

impl Run<'_> {
    fn push(&mut self, time: u64, node: usize, event: Event) {
        self.number += 1;
        self.events.push(Reverse((time, self.number, node, event)));
    }

    /// Starts the agents below, then the ranks.
    fn up(&mut self, now: u64, node: usize) {
        self.times.agents = self.times.agents.max(now);
        let mut free = now;
        for below in self.nodes[node].below.clone() {
            free += self.costs.fork_ns;
            self.push(free + self.costs.ssh_ns, below, Event::Up);
        }
        let mut cores = vec![0; self.costs.cores.max(1)];
        let mut last = now;
        for rank in 0..self.job.per_node {
            free += self.costs.fork_ns;
            // Those that were started first are first on their cores.
            let core = &mut cores[rank % self.costs.cores.max(1)];
            *core = free.max(*core) + self.costs.begin_ns;
            last = last.max(*core);
        }
        self.nodes[node].server = free;
        self.times.processes = self.times.processes.max(last);
        self.phase(last, node);
    }

    /// The ranks of a node begin a phase.
    fn phase(&mut self, now: u64, node: usize) {
        let (phase, first) = (self.phases[self.at[node]], node == 0);
        let mut requests = vec![phase.puts + phase.gets; self.job.per_node];
        let more = phase.first_gets + if first { phase.root_gets } else { 0 };
        if let Some(one) = requests.first_mut().filter(|_| more > 0) {
            *one += more + 1;
        }
        // And the fence itself.
        requests.iter_mut().for_each(|n| *n += 1);
        let begin = now.max(self.nodes[node].server);
        let end = begin + answered(&requests, self.costs.request_ns, (1, 0));
        self.nodes[node].server = end;
        self.push(end, node, Event::Done);
    }

    fn done(&mut self, now: u64, node: usize) {
        let at = self.at[node];
        if at + 1 == self.phases.len() {
            self.times.phases[at] = self.times.phases[at].max(now);
            return;
        }
        let phase = self.phases[at];
        let one = phase.first_is_far || (node == 0 && phase.root_gets > 0);
        self.fenced(now, node, phase.far_puts * self.job.per_node as u64 + u64::from(one), 0);
    }

    /// One of the node's branches, or its own ranks, are in the fence; the server works `work_ns` on their values.
    fn fenced(&mut self, now: u64, node: usize, values: u64, work_ns: u64) {
        let n = &mut self.nodes[node];
        (n.come, n.values) = (n.come + 1, n.values + values);
        n.server = n.server.max(now) + work_ns;
        if n.come <= n.below.len() {
            return;
        }
        let (values, ready, above) = (n.values, n.server, n.above);
        (n.come, n.values) = (0, 0);
        match above {
            None => {
                let mut left = values;
                while left > self.costs.piece_values {
                    self.released(ready, node, self.costs.piece_values, false);
                    left -= self.costs.piece_values;
                }
                self.released(ready, node, left, true);
            }
            Some(above) => {
                let came = self.carry(ready, (node, above), values);
                self.push(came, above, Event::Fenced(values));
            }
        }
    }

    /// When `values` values that one node sends to another have come.
    fn carry(&mut self, now: u64, (from, to): (usize, usize), values: u64) -> u64 {
        let carry = self.costs.carry_ns(values);
        let left = now.max(self.nodes[from].out);
        self.nodes[from].out = left + carry;
        let into = &mut self.nodes[to].into;
        *into = (left + self.costs.latency_ns).max(*into) + carry;
        *into
    }

    /// Passes the values down, takes them in, and lets the ranks go when these are the last.
    fn released(&mut self, now: u64, node: usize, values: u64, last: bool) {
        for below in self.nodes[node].below.clone() {
            let came = self.carry(now, (node, below), values);
            self.push(came, below, Event::Released(values, last));
        }
        let n = &mut self.nodes[node];
        n.server = n.server.max(now) + values * self.costs.value_ns;
        let free = n.server;
        if !last {
            return;
        }
        let at = &mut self.at[node];
        self.times.phases[*at] = self.times.phases[*at].max(free);
        *at += 1;
        self.phase(free, node);
    }
}

/// The command's table: for 1 and `per_node` ranks on a node.
pub(crate) fn table(words: &[&str]) -> Result<String, String> {
    let mut job = Job { nodes: 10_000, per_node: 100, fanout: 32 };
    let mut costs = Costs::USUAL;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let value = words.next().and_then(|n| n.parse::<usize>().ok()).filter(|n| (1..=1 << 24).contains(n));
        let value = value.ok_or_else(|| format!("startup: {word} takes a number"))?;
        match *word {
            "--nodes" => job.nodes = value,
            "--ppn" => (job.per_node, costs.cores) = (value, value),
            "--fanout" => job.fanout = value,
            "--ssh-ms" => costs.ssh_ns = value as u64 * 1_000_000,
            "--byte-ps" => costs.byte_ps = value as u64,
            _ => {
                return Err(format!(
                    "startup takes --nodes, --ppn, --fanout, --ssh-ms and --byte-ps, not {word}"
                ));
            }
        }
    }
    if job.ranks() > u64::from(MAX_P) {
        return Err(format!("startup: {} ranks, of at most {MAX_P}", job.ranks()));
    }
    Ok(shown(job, &costs))
}

fn ms(ns: u64) -> String {
    format!("{}.{} ms", ns / 1_000_000, ns / 100_000 % 10)
}

fn shown(job: Job, costs: &Costs) -> String {
    let times = start(job, costs);
    let mut out =
        format!("{} nodes of {}, fan-out {}; under circulant run\n", job.nodes, job.per_node, job.fanout);
    out += "\n| until | time | of that |\n|---|---|---|\n";
    let mut before = 0;
    let mut row = |what: &str, end: u64| {
        out += &format!("| {what} | {} | {} |\n", ms(end), ms(end.saturating_sub(before)));
        before = end;
    };
    row("the last agent is up", times.agents);
    row("the last process has begun", times.processes);
    for (phase, end) in job.phases().iter().zip(&times.phases) {
        row(phase.name, *end);
    }
    out += "\nOf a server of the site, from the first request to the last answer:\n\n| | every value is there | a value is asked of its node |\n|---|---|---|\n";
    for phase in job.phases() {
        let gets = vec![phase.gets; job.per_node];
        let [here, there] = [(1, 0), (3, costs.latency_ns)].map(|way| answered(&gets, costs.request_ns, way));
        let first = vec![phase.root_gets.max(phase.first_gets)];
        let [first_here, first_there] =
            [(1, 0), (3, costs.latency_ns)].map(|way| answered(&first, costs.request_ns, way));
        out += &format!("| {} | {} | {} |\n", phase.name, ms(here + first_here), ms(there + first_there));
    }
    out
}
