//! The launcher's side of PMI-1: lines in, answers out, no I/O.

use circulant::launch::wire::{LOCAL_SCOPE, Line, SCOPE, quote};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// All values of a job together may take this many bytes.
const TOTAL_MAX: usize = 1 << 30;

/// What to do after a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing.
    Nothing,
    /// Send this to the rank that sent the line.
    Reply(Vec<u8>),
    /// Send this to every rank here: all of them are in the barrier. (Where other nodes have ranks, too, when
    /// theirs are.)
    All(Vec<u8>),
    /// The rank asks which ranks are not in the barrier.
    Late,
    /// The rank asks to end the job.
    Abort {
        /// With this exit code.
        code: i32,
        /// For this reason, if it said one.
        message: String,
    },
    /// The line is no PMI-1; this says why.
    Refuse(String),
}

/// The key-value space and the barrier of one job, as the ranks of one node see it. A key and its value that
/// were put on another node are there after [`Pmi::merge`].
#[derive(Debug)]
pub struct Pmi {
    name: String,
    /// How many ranks the whole job has.
    size: usize,
    values: HashMap<Vec<u8>, Vec<u8>>,
    /// What was put here since the last [`Pmi::take_fresh`], but for what only ranks of this node read.
    fresh: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
    members: Vec<Member>,
    waiting: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Member {
    joined: bool,
    finalized: bool,
    waiting: bool,
    /// The number of its program.
    app: usize,
    /// Inside a request of several lines, which is not supported.
    skipping: bool,
}

impl Pmi {
    /// A job of `size` ranks, all on this node, whose key-value space is called `name` (no spaces, at most 200
    /// characters).
    pub fn new(name: &str, size: usize) -> Self {
        Self::of_node(name, size, &vec![0; size], &format!("(vector,(0,1,{size}))"))
    }

    /// The part of a job of `size` ranks that runs on this node: a member for each of `apps`, which tell the
    /// number of its program. `mapping` is `PMI_process_mapping`, or nothing.
    pub fn of_node(name: &str, size: usize, apps: &[usize], mapping: &str) -> Self {
        let mut values = HashMap::new();
        if !mapping.is_empty() {
            values.insert(b"PMI_process_mapping".to_vec(), mapping.as_bytes().to_vec());
        }
        let member = |&app: &usize| Member { app, ..Member::default() };
        Self {
            name: name.to_owned(),
            size,
            values,
            fresh: Vec::new(),
            bytes: 0,
            members: apps.iter().map(member).collect(),
            waiting: 0,
        }
    }

    /// What was put here since the last call, for the other nodes.
    pub fn take_fresh(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        std::mem::take(&mut self.fresh)
    }

    /// Takes in what was put on another node. Of two values under one key the first stays.
    pub fn merge(&mut self, key: Vec<u8>, value: Vec<u8>) {
        let more = key.len() + value.len();
        if self.bytes + more <= TOTAL_MAX
            && let Entry::Vacant(place) = self.values.entry(key)
        {
            self.bytes += more;
            place.insert(value);
        }
    }

    /// The name of the key-value space.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The members that are not in the barrier that others here have entered.
    pub fn late(&self) -> Vec<usize> {
        (0..self.members.len()).filter(|rank| !self.members[*rank].waiting).collect()
    }

    /// Whether the member `rank` called init and not finalize.
    pub fn is_inside(&self, rank: usize) -> bool {
        self.members[rank].joined && !self.members[rank].finalized
    }

    /// Whether `rank` called finalize.
    pub fn is_finalized(&self, rank: usize) -> bool {
        self.members[rank].finalized
    }

    /// Takes a line (without its newline) from the member `rank`.
    ///
    /// # Panics
    /// When there is no such member.
    pub fn line(&mut self, rank: usize, raw: &[u8]) -> Outcome {
        let member = &mut self.members[rank];
        if member.skipping || raw.starts_with(b"mcmd=") {
            member.skipping = raw != b"endcmd";
            return match member.skipping {
                true => Outcome::Nothing,
                false => reply("cmd=spawn_result rc=-1 msg=not_supported"),
            };
        }
        let Some(line) = Line::parse(raw) else {
            return Outcome::Refuse(format!("{} is not PMI-1", quote(raw)));
        };
        match line.command() {
            b"init" => self.init(rank, &line),
            b"get_maxes" => reply("cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024 rc=0"),
            b"get_my_kvsname" => reply(&format!("cmd=my_kvsname kvsname={} rc=0", self.name)),
            b"get_universe_size" => reply(&format!("cmd=universe_size size={} rc=0", self.size)),
            b"get_appnum" => reply(&format!("cmd=appnum appnum={} rc=0", self.members[rank].app)),
            b"put" => self.put(&line),
            b"get" => self.get(&line),
            b"barrier_in" => self.barrier(rank),
            b"late" => Outcome::Late,
            b"finalize" => {
                self.members[rank].finalized = true;
                reply("cmd=finalize_ack rc=0")
            }
            b"abort" => Outcome::Abort {
                code: line.number("exitcode").unwrap_or(1),
                message: String::from_utf8_lossy(line.value().unwrap_or_default()).into_owned(),
            },
            other if !other.is_empty() && other.len() < 64 && other.iter().all(u8::is_ascii_graphic) => {
                reply(&format!("cmd={}_result rc=-1 msg=unknown_command", other.escape_ascii()))
            }
            _ => Outcome::Refuse(format!("{} is not PMI-1", quote(raw))),
        }
    }

    fn init(&mut self, rank: usize, line: &Line<'_>) -> Outcome {
        if line.number("pmi_version") != Some(1) {
            return reply("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1");
        }
        // Also one that called finalize comes back so, for another world.
        (self.members[rank].joined, self.members[rank].finalized) = (true, false);
        reply("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0")
    }

    fn put(&mut self, line: &Line<'_>) -> Outcome {
        let (Some(key), Some(value)) = (line.field("key"), line.value()) else {
            return reply("cmd=put_result rc=-1 msg=key_or_value_missing");
        };
        if !self.is_our_space(line) {
            return reply("cmd=put_result rc=-1 msg=unknown_kvsname");
        }
        if self.bytes + key.len() + value.len() > TOTAL_MAX {
            return reply("cmd=put_result rc=-1 msg=no_space_left");
        }
        match self.values.entry(key.to_vec()) {
            Entry::Occupied(_) => reply("cmd=put_result rc=-1 msg=duplicate_key"),
            Entry::Vacant(place) => {
                self.bytes += key.len() + value.len();
                place.insert(value.to_vec());
                if line.field(SCOPE) != Some(LOCAL_SCOPE.as_bytes()) {
                    self.fresh.push((key.to_vec(), value.to_vec()));
                }
                reply("cmd=put_result rc=0 msg=success")
            }
        }
    }

    fn get(&self, line: &Line<'_>) -> Outcome {
        let value = line.field("key").filter(|_| self.is_our_space(line)).and_then(|k| self.values.get(k));
        match value {
            Some(value) => {
                let mut out = b"cmd=get_result rc=0 msg=success value=".to_vec();
                out.extend_from_slice(value);
                out.push(b'\n');
                Outcome::Reply(out)
            }
            None => reply("cmd=get_result rc=-1 msg=key_not_found value=unknown"),
        }
    }

    fn barrier(&mut self, rank: usize) -> Outcome {
        if !std::mem::replace(&mut self.members[rank].waiting, true) {
            self.waiting += 1;
        }
        if self.waiting < self.members.len() {
            return Outcome::Nothing;
        }
        self.waiting = 0;
        self.members.iter_mut().for_each(|m| m.waiting = false);
        Outcome::All(b"cmd=barrier_out rc=0\n".to_vec())
    }

    fn is_our_space(&self, line: &Line<'_>) -> bool {
        line.field("kvsname") == Some(self.name.as_bytes())
    }
}

fn reply(line: &str) -> Outcome {
    Outcome::Reply(format!("{line}\n").into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn say(pmi: &mut Pmi, rank: usize, line: &str) -> String {
        match pmi.line(rank, line.as_bytes()) {
            Outcome::Reply(r) => String::from_utf8(r).unwrap(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_conversation() {
        let mut pmi = Pmi::new("job", 2);
        assert!(say(&mut pmi, 0, "cmd=init pmi_version=2 pmi_subversion=0").contains("rc=-1"));
        assert!(!pmi.is_inside(0));
        assert!(say(&mut pmi, 0, "cmd=init pmi_version=1 pmi_subversion=1").contains("rc=0"));
        assert!(pmi.is_inside(0) && !pmi.is_inside(1));
        assert!(say(&mut pmi, 0, "cmd=put kvsname=job key=a value=b c=d").contains("rc=0"));
        assert!(say(&mut pmi, 1, "cmd=put kvsname=job key=a value=x").contains("duplicate_key"));
        assert!(say(&mut pmi, 1, "cmd=put kvsname=other key=q value=x").contains("rc=-1"));
        assert!(say(&mut pmi, 1, "cmd=get kvsname=job key=a").ends_with("value=b c=d\n"));
        assert!(say(&mut pmi, 1, "cmd=get kvsname=job key=none").contains("rc=-1"));
        assert!(say(&mut pmi, 1, "cmd=get kvsname=job key=PMI_process_mapping").contains("(vector,(0,1,2))"));
        assert_eq!(pmi.line(0, b"cmd=barrier_in"), Outcome::Nothing);
        assert_eq!(pmi.line(0, b"cmd=barrier_in"), Outcome::Nothing);
        assert_eq!((pmi.line(0, b"cmd=late"), pmi.late()), (Outcome::Late, vec![1]));
        assert!(matches!(pmi.line(1, b"cmd=barrier_in"), Outcome::All(_)));
        assert_eq!(pmi.line(1, b"cmd=barrier_in"), Outcome::Nothing);
        assert!(say(&mut pmi, 0, "cmd=finalize").contains("finalize_ack"));
        assert!(!pmi.is_inside(0) && pmi.is_finalized(0));
        assert!(say(&mut pmi, 0, "cmd=init pmi_version=1 pmi_subversion=1").contains("rc=0"));
        assert!(pmi.is_inside(0) && !pmi.is_finalized(0), "it came back");
        let abort = Outcome::Abort { code: -7, message: "no more".to_owned() };
        assert_eq!(pmi.line(1, b"cmd=abort exitcode=-7 value=no more"), abort);
        assert!(say(&mut pmi, 1, "cmd=ring").contains("ring_result rc=-1"));
        assert!(matches!(pmi.line(1, b"hello"), Outcome::Refuse(_)));
        for line in ["mcmd=spawn", "nprocs=1", "cmd=abort exitcode=1"] {
            assert_eq!(pmi.line(1, line.as_bytes()), Outcome::Nothing);
        }
        assert!(say(&mut pmi, 1, "endcmd").contains("rc=-1"));
        assert!(say(&mut pmi, 1, "cmd=get_appnum").contains("appnum=0"));
    }

    #[test]
    fn two_nodes() {
        let mut nodes = [0, 1].map(|app| Pmi::of_node("job", 2, &[app], "(vector,(0,2,1))"));
        assert!(say(&mut nodes[0], 0, "cmd=put kvsname=job key=k value=v").contains("rc=0"));
        assert!(say(&mut nodes[1], 0, "cmd=put kvsname=job key=k value=other").contains("rc=0"));
        let fresh = nodes[0].take_fresh();
        assert_eq!((&fresh[..], nodes[0].take_fresh().len()), (&[(b"k".to_vec(), b"v".to_vec())][..], 0));
        let mut third = Pmi::of_node("job", 2, &[0], "");
        for (key, value) in fresh {
            nodes[1].merge(key.clone(), value.clone());
            third.merge(key, value);
        }
        assert!(say(&mut third, 0, "cmd=get kvsname=job key=k").contains("value=v"));
        assert!(say(&mut nodes[1], 0, "cmd=get kvsname=job key=k").contains("value=other"), "its own stays");
        assert!(say(&mut nodes[1], 0, "cmd=get_universe_size").contains("size=2"));
        assert!(say(&mut nodes[1], 0, "cmd=get_appnum").contains("appnum=1"));
        assert!(say(&mut third, 0, "cmd=get kvsname=job key=PMI_process_mapping").contains("rc=-1"));
        assert!(matches!(nodes[0].line(0, b"cmd=barrier_in"), Outcome::All(_)), "all of this node");
    }

    #[test]
    fn what_only_ranks_of_a_node_read_stays_there() {
        let mut pmi = Pmi::of_node("job", 4, &[0, 0], "(vector,(0,2,2))");
        assert!(say(&mut pmi, 0, "cmd=put kvsname=job key=near scope=local value=v w").contains("rc=0"));
        assert!(say(&mut pmi, 0, "cmd=put kvsname=job key=far scope=global value=v").contains("rc=0"));
        assert!(say(&mut pmi, 0, "cmd=put kvsname=job key=text value=v scope=local").contains("rc=0"));
        assert!(say(&mut pmi, 1, "cmd=get kvsname=job key=near").ends_with("value=v w\n"));
        assert!(
            say(&mut pmi, 1, "cmd=put kvsname=job key=near scope=local value=x").contains("duplicate_key")
        );
        let keys: Vec<_> = pmi.take_fresh().into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, [&b"far"[..], b"text"]);
    }

    proptest! {
        #[test]
        fn any_bytes(lines in proptest::collection::vec((0usize..3, proptest::collection::vec(any::<u8>(), 0..80)), 0..20)) {
            let mut pmi = Pmi::new("job", 3);
            for (rank, line) in lines {
                pmi.line(rank, &line);
            }
        }

        #[test]
        fn any_commands(
            lines in proptest::collection::vec(
                (0usize..3, "(cmd|mcmd)=(init|put|get|barrier_in|finalize|abort|get_maxes|x)( (kvsname=job|key=[ab]|value=[ -~]{0,4}|exitcode=[0-9-]{0,12}|rc=0|pmi_version=1)){0,4}"),
                0..40,
            )
        ) {
            let mut pmi = Pmi::new("job", 3);
            for (rank, line) in lines {
                if let Outcome::Reply(answer) | Outcome::All(answer) = pmi.line(rank, line.as_bytes()) {
                    prop_assert_eq!(answer.iter().filter(|&&b| b == b'\n').count(), 1);
                    prop_assert!(answer.ends_with(b"\n"));
                }
            }
        }
    }
}
