//! What an agent is told about its job, and how hosts are shared out along the tree of agents.

use super::fields::{Fields, Read};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What of the machine a rank is bound to, in hwloc's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bind {
    /// Nothing: the system may move it.
    #[default]
    None,
    /// A core of its own, with all its hardware threads.
    Core,
    /// A socket (hwloc: package), with all its cores.
    Socket,
    /// A NUMA node, with all its cores.
    Numa,
}

/// Where the next rank goes, in Open MPI's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Map {
    /// To the host of the one before, until that is full.
    #[default]
    Slot,
    /// The same, there to the next core.
    Core,
    /// To the next host.
    Node,
    /// To the host of the one before, until that is full, there to the next socket.
    Socket,
    /// The same, there to the next NUMA node.
    Numa,
}

impl Bind {
    const ALL: [Self; 4] = [Self::None, Self::Core, Self::Socket, Self::Numa];
}

impl Map {
    const ALL: [Self; 5] = [Self::Slot, Self::Core, Self::Node, Self::Socket, Self::Numa];
}

/// The number of `item` among `all`, by which it travels.
fn number<T: PartialEq>(all: &[T], item: &T) -> usize {
    all.iter().position(|i| i == item).unwrap_or(0)
}

/// Which ranks read the launcher's standard input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Input {
    /// Rank 0.
    #[default]
    First,
    /// Every rank gets all of it.
    All,
    /// None.
    None,
}

/// A program and how many ranks run it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct App {
    /// How many ranks.
    pub ranks: usize,
    /// The program: a path, or a name to be looked up where it runs.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Variables for these ranks, which win over those of the job.
    pub environment: Vec<(OsString, OsString)>,
    /// The folder in which they run.
    pub folder: Option<PathBuf>,
}

/// A host with ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Its index among the hosts of the job, which is its node's number, too.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// Its ranks, in ascending order.
    pub ranks: Vec<usize>,
}

/// What an agent must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The sender's version; it must be the agent's own.
    pub version: String,
    /// Known to the job's launcher and agents alone.
    pub secret: Vec<u8>,
    /// The name of the key-value space.
    pub name: String,
    /// How many ranks the job has.
    pub size: usize,
    /// `PMI_process_mapping`, or nothing.
    pub mapping: String,
    /// Variables for all ranks.
    pub environment: Vec<(OsString, OsString)>,
    /// What they run, in order of ranks.
    pub apps: Vec<App>,
    /// The agent's own host, and those that it starts agents on.
    pub sites: Vec<Site>,
    /// The command that starts an agent; the name of the host and the agent's command follow.
    pub starter: Vec<OsString>,
    /// The agent's command.
    pub agent: OsString,
    /// How many agents each starts itself.
    pub fanout: usize,
    /// How long, in milliseconds, an agent may take to come up.
    pub start_timeout: usize,
    /// What ranks are bound to.
    pub bind: Bind,
    /// In which order of objects.
    pub map: Map,
    /// Which ranks read standard input.
    pub input: Input,
    /// Whether output is passed on by whole lines.
    pub lines: bool,
    /// Whether the errors that ranks were told by others are left out of it.
    pub fold: bool,
}

impl Setup {
    pub(super) fn write(&self, f: Fields) -> Fields {
        let pair = |f: Fields, (k, v): &(OsString, OsString)| f.os(k).os(v);
        let app = |f: Fields, a: &App| {
            let f = f.number(a.ranks).os(a.program.as_os_str());
            let f = f.list(&a.arguments, |f, a| f.os(a)).list(&a.environment, pair);
            f.list(a.folder.as_slice(), |f, p| f.os(p.as_os_str()))
        };
        let site = |f: Fields, s: &Site| {
            f.number(s.index).bytes(s.name.as_bytes()).list(&s.ranks, |f, r| f.number(*r))
        };
        f.bytes(self.version.as_bytes())
            .bytes(&self.secret)
            .bytes(self.name.as_bytes())
            .number(self.size)
            .bytes(self.mapping.as_bytes())
            .list(&self.environment, pair)
            .list(&self.apps, app)
            .list(&self.sites, site)
            .list(&self.starter, |f, s| f.os(s))
            .os(&self.agent)
            .number(self.fanout)
            .number(self.start_timeout)
            .number(number(&Bind::ALL, &self.bind))
            .number(number(&Map::ALL, &self.map))
            .number(match self.input {
                Input::First => 0,
                Input::All => 1,
                Input::None => 2,
            })
            .number(self.lines.into())
            .number(self.fold.into())
    }

    pub(super) fn read(r: &mut Read<'_>) -> Option<Self> {
        let pair = |r: &mut Read<'_>| Some((r.os()?, r.os()?));
        let setup = Self {
            version: r.text()?,
            secret: r.bytes()?.to_vec(),
            name: r.text()?,
            size: r.number()?,
            mapping: r.text()?,
            environment: r.list(pair)?,
            apps: r.list(|r| {
                Some(App {
                    ranks: r.number()?,
                    program: r.os()?.into(),
                    arguments: r.list(Read::os)?,
                    environment: r.list(pair)?,
                    folder: r.list(Read::os)?.pop().map(PathBuf::from),
                })
            })?,
            sites: r
                .list(|r| Some(Site { index: r.number()?, name: r.text()?, ranks: r.list(Read::number)? }))?,
            starter: r.list(Read::os)?,
            agent: r.os()?,
            fanout: r.number()?,
            start_timeout: r.number()?,
            bind: Bind::ALL.get(r.number()?).copied()?,
            map: Map::ALL.get(r.number()?).copied()?,
            input: [Input::First, Input::All, Input::None].get(r.number()?).copied()?,
            lines: r.flag()?,
            fold: r.flag()?,
        };
        setup.is_sound().then_some(setup)
    }

    /// Whether what it says fits together, so that it need not be checked again.
    fn is_sound(&self) -> bool {
        let known = self.apps.iter().try_fold(0usize, |sum, app| sum.checked_add(app.ranks));
        let fits = |s: &Site| s.ranks.iter().all(|&r| r < self.size);
        known == Some(self.size) && self.fanout > 0 && !self.sites.is_empty() && self.sites.iter().all(fits)
    }

    /// How long an agent may take to come up; never so long that a clock overflows.
    pub(super) fn start_timeout(&self) -> Duration {
        Duration::from_millis((self.start_timeout as u64).min(1 << 40))
    }

    /// The program of a rank, by its index.
    pub(super) fn app_of(&self, rank: usize) -> usize {
        let mut end = 0;
        let inside = |app: &App| {
            end += app.ranks;
            rank < end
        };
        self.apps.iter().position(inside).unwrap_or(0)
    }
}

/// Shares `sites` out among at most `fanout` agents: each part's first is the agent that the sharer starts, the
/// others it starts itself.
pub fn branches<T: Clone>(sites: &[T], fanout: usize) -> Vec<Vec<T>> {
    let parts = sites.len().min(fanout.max(1));
    (0..parts).map(|i| sites[sites.len() * i / parts..sites.len() * (i + 1) / parts].to_vec()).collect()
}

/// The sites that are lost with the agent on `host`, where `sites` are an agent's own and all below it.
pub(super) fn below(sites: &[Site], host: usize, fanout: usize) -> Vec<Site> {
    match sites.split_first() {
        Some((first, _)) if first.index == host => sites.to_vec(),
        Some((_, rest)) => {
            let part = branches(rest, fanout).into_iter().find(|p| p.iter().any(|s| s.index == host));
            part.map_or_else(Vec::new, |part| below(&part, host, fanout))
        }
        None => Vec::new(),
    }
}

#[cfg(test)]
impl Setup {
    pub(super) fn example() -> Self {
        let text = |t: &str| OsString::from(t);
        let app = App {
            ranks: 2,
            program: "/bin/true".into(),
            arguments: vec![text("a b"), text("")],
            environment: vec![(text("A"), text("1"))],
            folder: Some("/".into()),
        };
        Self {
            version: "1".into(),
            secret: vec![1, 2, 10],
            name: "job".into(),
            size: 4,
            mapping: "(vector,(0,2,2))".into(),
            environment: vec![(text("HOME"), text("/x"))],
            apps: vec![app.clone(), App { folder: None, ..app }],
            sites: vec![Site { index: 1, name: "b".into(), ranks: vec![2, 3] }],
            starter: vec![text("ssh")],
            agent: text("circulant"),
            fanout: 32,
            start_timeout: 1000,
            bind: Bind::Socket,
            map: Map::Numa,
            input: Input::All,
            lines: true,
            fold: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_is_in_one_branch() {
        for hosts in 0..200usize {
            for fanout in [1, 2, 32] {
                let all: Vec<usize> = (0..hosts).collect();
                let parts = branches(&all, fanout);
                assert!(parts.len() <= fanout && parts.iter().all(|p| !p.is_empty()));
                assert_eq!(parts.concat(), all);
            }
        }
    }

    #[test]
    fn what_is_lost_with_a_host() {
        let site = |index| Site { index, name: String::new(), ranks: vec![index] };
        let all: Vec<Site> = (0..9).map(site).collect();
        let lost = |host| below(&all, host, 2).iter().map(|s| s.index).collect::<Vec<_>>();
        assert_eq!(lost(0), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!((lost(1), lost(5)), (vec![1, 2, 3, 4], vec![5, 6, 7, 8]));
        assert_eq!((lost(8), lost(99)), (vec![7, 8][1..].to_vec(), vec![]));
    }

    #[test]
    fn programs_of_ranks() {
        let setup = Setup::example();
        assert_eq!([0, 1, 2, 3].map(|r| setup.app_of(r)), [0, 0, 1, 1]);
    }
}
