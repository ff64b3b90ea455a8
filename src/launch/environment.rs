//! No launcher at all: each process is told its rank by variables, as in a loop over ssh, in containers or in
//! Kubernetes. Rank 0 keeps the addresses of all (root.rs), at `CIRCULANT_ROOT`.
//!
//! | variable | |
//! |---|---|
//! | `CIRCULANT_RANK` | our rank, from 0 |
//! | `CIRCULANT_SIZE` | the number of ranks |
//! | `CIRCULANT_ROOT` | `host:port` (`[address]:port`) where rank 0 listens and all others find it |
//! | `CIRCULANT_JOB` | any word, the same at all ranks; keeps other jobs and other processes out |
//! | `CIRCULANT_JOB_FILE` | a file in which that word stands, which only its owner may read; or a pipe: `/dev/fd/3` |
//! | `CIRCULANT_MUNGE` | `yes`, or the path of munged's socket: munge shows that all ranks are of one user, in place of a word |
//!
//! Only where the root is on the loopback interface may there be neither word nor munge.

use super::introduction::Introduction;
use super::munge;
use super::pmi1::Pmi1;
use super::root::Root;
use super::stream::connect_to;
use crate::config::Logging;
use crate::error::{Error, ErrorKind, Result};
use crate::secret::Secret;
use std::io::Read;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

pub use crate::config::LAUNCH_VARIABLES as VARIABLES;

const NAME: &str = "env (CIRCULANT_ROOT)";

/// What the variables say of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Assignment {
    pub(super) rank: usize,
    pub(super) size: usize,
    root: String,
    job: String,
    munge: Option<munge::Asked>,
    /// What rank 0 says of strangers.
    log: Logging,
}

/// More ranks than one thread should keep the addresses of.
const SIZE_MAX: usize = 1 << 16;

/// The longest word of a job; a line of PMI-1 has room for it.
const WORD_MAX: usize = 256;

impl Assignment {
    /// Our rank and job; `None` when no variable tells them.
    ///
    /// # Errors
    /// When the variables are incomplete, or make no sense.
    pub(super) fn of(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Self>> {
        let [rank, size, root, job, file, munge] =
            VARIABLES.map(|name| variable(name).map(|v| v.trim().to_owned()));
        if rank.is_none() && size.is_none() && root.is_none() {
            return Ok(None);
        }
        let wrong = |what: String| {
            Error::new(ErrorKind::Launch, what)
                .help("set CIRCULANT_RANK, CIRCULANT_SIZE and CIRCULANT_ROOT=host:port for each process, or none of them")
        };
        let number = |name: &str, value: Option<String>| match value.as_deref().map(str::parse::<usize>) {
            Some(Ok(n)) => Ok(n),
            Some(Err(_)) => Err(wrong(format!("{name}={} is no number", value.unwrap_or_default()))),
            None => Err(wrong(format!("{name} is not set, but others of its kind are"))),
        };
        let (rank, size) = (number(VARIABLES[0], rank)?, number(VARIABLES[1], size)?);
        if rank >= size || size > SIZE_MAX {
            return Err(wrong(format!("CIRCULANT_RANK={rank} of CIRCULANT_SIZE={size} cannot be")));
        }
        let (root, job) = (root.unwrap_or_default(), word(job, file)?);
        let port = root
            .rsplit_once(':')
            .and_then(|(host, port)| port.parse::<u16>().ok().filter(|_| !host.is_empty()));
        if size > 1 && port.is_none_or(|port| port == 0) {
            return Err(wrong(format!("CIRCULANT_ROOT={root:?} is not host:port")));
        }
        let munge = munge::Asked::of(munge.as_deref())?;
        Ok(Some(Self { rank, size, root, job, munge, log: Logging::default() }))
    }

    /// With this setting `log`.
    pub(super) fn logging(self, log: Logging) -> Self {
        Self { log, ..self }
    }

    /// What the job's word stands for.
    pub(super) fn secret(&self) -> Secret {
        Secret::of_word(&self.job)
    }

    fn introduction(&self) -> Result<Introduction> {
        let munge = self.munge.as_ref().map(munge::Asked::load).transpose()?;
        Ok(Introduction { rank: self.rank, size: self.size, secret: self.secret(), munge })
    }

    /// Whether only processes of the job or of its user are let in.
    fn is_closed(&self) -> bool {
        !self.job.is_empty() || self.munge.is_some()
    }

    /// Else any process that reaches the port can take a rank: then it must be of this machine.
    fn guarded(&self) -> Result<()> {
        let here = || self.root.to_socket_addrs().is_ok_and(|mut all| all.all(|a| a.ip().is_loopback()));
        if !self.is_closed() && !here() { Err(self.unguarded()) } else { Ok(()) }
    }

    fn unguarded(&self) -> Error {
        let root = &self.root;
        let what = format!(
            "CIRCULANT_JOB is not set, so any process that reaches CIRCULANT_ROOT={root} could take a rank"
        );
        Error::new(ErrorKind::Launch, what)
            .at_rank(self.rank)
            .help("name a file by CIRCULANT_JOB_FILE in which all ranks find the same secret word; or, where munge runs, CIRCULANT_MUNGE=yes")
    }
}

/// What the job's word stands for, where another launcher tells the rank.
///
/// # Errors
/// When there is one that cannot be used.
pub(super) fn secret(variable: &dyn Fn(&str) -> Option<String>) -> Result<Secret> {
    let [_, _, _, job, file, _] = VARIABLES.map(|name| variable(name).map(|v| v.trim().to_owned()));
    word(job, file).map(|word| Secret::of_word(&word))
}

/// The job's word: as it stands in its variable, or in the file that the other one names. None is the empty one.
fn word(job: Option<String>, file: Option<String>) -> Result<String> {
    let wrong = |what: String| Error::new(ErrorKind::Launch, what);
    let (job, from) = match (job, file) {
        (Some(_), Some(_)) => {
            return Err(wrong("CIRCULANT_JOB and CIRCULANT_JOB_FILE are both set".to_owned())
                .help("unset one: the word in the file cannot be seen in the list of processes"));
        }
        (job, None) => (job.unwrap_or_default(), "CIRCULANT_JOB"),
        (None, Some(path)) => {
            let about = |what: String| {
                wrong(format!("CIRCULANT_JOB_FILE={path}: {what}"))
                    .help("one word in a file of mode 600, or a pipe: CIRCULANT_JOB_FILE=/dev/fd/3")
            };
            let text = private_text(&path).map_err(about)?;
            if text.is_empty() {
                return Err(about("there is no word in it".to_owned()));
            }
            (text, "the word in CIRCULANT_JOB_FILE")
        }
    };
    if !job.bytes().all(|b| b.is_ascii_graphic()) || job.len() > WORD_MAX {
        return Err(wrong(format!("{from} is not one word of at most {WORD_MAX} plain characters")));
    }
    Ok(job)
}

/// What stands in a file or a pipe that only its owner may read.
fn private_text(path: &str) -> std::result::Result<String, String> {
    let mut file = std::fs::File::open(path).map_err(|e| e.to_string())?;
    // Of what was opened, not of what the name stands for by now.
    let about = file.metadata().map_err(|e| e.to_string())?;
    let kind = about.file_type();
    if !kind.is_file() && !kind.is_fifo() {
        return Err("it is neither a file nor a pipe".to_owned());
    }
    if about.mode() & 0o077 != 0 {
        return Err(format!("others than its owner may use it (mode {:03o})", about.mode() & 0o777));
    }
    let mut text = String::new();
    // Longer ones are refused, however long: white space may stand round the word.
    let most = 2 * WORD_MAX as u64;
    (&mut file).take(most).read_to_string(&mut text).map_err(|e| e.to_string())?;
    Ok(text.trim().to_owned())
}

/// Joins, at rank 0 by listening where the other ranks connect; within `timeout`.
///
/// # Errors
/// When the root's address cannot be opened or reached, or rank 0 knows another size, job or holder of our rank.
pub(super) fn join(assignment: &Assignment, timeout: Duration) -> Result<Pmi1> {
    assignment.guarded()?;
    let us = assignment.introduction()?;
    if assignment.rank == 0 {
        return Pmi1::to_rank_0(NAME, Box::new(open(assignment, &us)?), &us, timeout);
    }
    let end = Instant::now() + timeout;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        // Rank 0 may start later, and its name may not be known before.
        let why = match connect_to(
            &assignment.root,
            left.min(Duration::from_secs(5)).max(Duration::from_millis(1)),
        ) {
            Ok(stream) => match Pmi1::to_rank_0(NAME, Box::new(stream), &us, timeout) {
                // Closed without a word: rank 0 has ended, or more connections came than it keeps open without an introduction.
                Err(e) if e.kind() == ErrorKind::PeerLost => e.message().to_owned(),
                done => return done,
            },
            Err(e) => e.to_string(),
        };
        if left.is_zero() {
            let root = &assignment.root;
            let within = timeout.as_secs_f64();
            let what = format!("rank 0 did not answer at CIRCULANT_ROOT={root} within {within} s: {why}");
            return Err(Error::new(ErrorKind::Launch, what)
                .at_rank(assignment.rank)
                .with_peer(0)
                .help("is rank 0 started, and does a firewall let this port through?"));
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}

/// Starts the thread that keeps the addresses; rank 0's own way to it.
fn open(assignment: &Assignment, us: &Introduction) -> Result<UnixStream> {
    let trouble = |e: std::io::Error| {
        let what = format!("rank 0 cannot listen at CIRCULANT_ROOT={}: {e}", assignment.root);
        Error::new(ErrorKind::Launch, what)
            .at_rank(0)
            .help("take a free port of the machine where rank 0 runs")
    };
    let listener = listen(&assignment.root).map_err(trouble)?;
    if !assignment.is_closed() && !listener.local_addr()?.ip().is_loopback() {
        return Err(assignment.unguarded());
    }
    let (ours, theirs) = UnixStream::pair()?;
    let root = Root::new(listener, theirs, us, assignment.log)?;
    std::thread::Builder::new().name("root".to_owned()).spawn(move || root.serve())?;
    Ok(ours)
}

/// At the address that the name stands for, where it is ours; else (the address of a service before us) at any.
fn listen(root: &str) -> std::io::Result<TcpListener> {
    let mut taken = None;
    for address in root.to_socket_addrs()? {
        match TcpListener::bind(address) {
            Ok(listener) => return Ok(listener),
            Err(e) if e.kind() == std::io::ErrorKind::AddrInUse => taken = Some(e),
            Err(_) => {}
        }
    }
    if let Some(e) = taken {
        return Err(e);
    }
    let port = root.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok()).unwrap_or(0);
    let any: [SocketAddr; 2] = [(Ipv6Addr::UNSPECIFIED, port).into(), (Ipv4Addr::UNSPECIFIED, port).into()];
    TcpListener::bind(&any[..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::Launch;
    use crate::launch::session::Client;
    use std::io::Write;
    use std::net::TcpStream;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::PermissionsExt;

    const LONG: Duration = Duration::from_secs(20);

    fn assignment(rank: &str, size: &str, root: &str, job: &str) -> Result<Option<Assignment>> {
        assignment_by([rank, size, root, job, "", ""])
    }

    fn assignment_by(values: [&str; 6]) -> Result<Option<Assignment>> {
        Assignment::of(&|name| {
            let at = VARIABLES.iter().position(|v| *v == name)?;
            (!values[at].is_empty()).then(|| values[at].to_owned())
        })
    }

    /// A free port of this machine.
    fn free() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().to_string()
    }

    #[test]
    fn variables_are_all_or_none() {
        assert_eq!(assignment("", "", "", "").unwrap(), None);
        assert_eq!(assignment("", "", "", "job").unwrap(), None);
        assert!(assignment("3", "4", "host:7000", "a-word").unwrap().is_some());
        assert!(assignment("3", "4", "[::1]:7000", "").unwrap().is_some());
        assert!(assignment("0", "1", "", "").unwrap().is_some());
        for (bad, word) in [
            (["3", "", "h:1", ""], "CIRCULANT_SIZE is not set"),
            (["", "4", "h:1", ""], "CIRCULANT_RANK is not set"),
            (["x", "4", "h:1", ""], "CIRCULANT_RANK=x is no number"),
            (["4", "4", "h:1", ""], "cannot be"),
            (["0", "0", "h:1", ""], "cannot be"),
            (["0", "9999999", "h:1", ""], "cannot be"),
            (["0", "2", "", ""], "is not host:port"),
            (["0", "2", "host", ""], "is not host:port"),
            (["0", "2", "host:0", ""], "is not host:port"),
            (["0", "2", ":7000", ""], "is not host:port"),
            (["0", "2", "h:1", "two words"], "one word"),
        ] {
            let e = assignment(bad[0], bad[1], bad[2], bad[3]).unwrap_err().to_string();
            assert!(e.contains(word), "{bad:?}: {e}");
        }
    }

    #[test]
    fn the_word_may_stand_in_a_file_that_others_cannot_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("word");
        let name = path.to_str().unwrap();
        let by =
            |job: &str, file: &str| assignment_by(["1", "2", "h:7", job, file, ""]).map(|p| p.unwrap().job);
        let with = |text: &str, mode: u32| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            by("", name)
        };
        assert_eq!(with(" a-word\n", 0o600).unwrap(), "a-word");
        assert_eq!(with("a-word", 0o400).unwrap(), "a-word");
        for (text, mode, words) in [
            ("a-word", 0o640, "others than its owner may use it (mode 640)"),
            ("a-word", 0o604, "others than its owner may use it"),
            (" \n", 0o600, "no word in it"),
            ("two words", 0o600, "one word"),
            (&"x".repeat(10_000), 0o600, "one word"),
        ] {
            let e = with(text, mode).unwrap_err().to_string();
            assert!(e.contains(words) && e.contains("CIRCULANT_JOB_FILE"), "{text:.20}, {mode:o}: {e}");
        }
        for (job, file, words) in [
            ("word", name, "both set"),
            ("", "/no/such/file", "No such file"),
            ("", "/dev/null", "neither a file nor a pipe"),
        ] {
            let e = by(job, file).unwrap_err().to_string();
            assert!(e.contains(words), "{e}");
        }
        let (ours, mut theirs) = std::io::pipe().unwrap();
        theirs.write_all(b"piped\n").unwrap();
        drop(theirs);
        assert_eq!(by("", &format!("/dev/fd/{}", ours.as_raw_fd())).unwrap(), "piped");
    }

    fn together<T: Send + 'static>(
        size: usize,
        job: &str,
        part: impl Fn(usize, Pmi1) -> T + Clone + Send + 'static,
    ) -> Vec<T> {
        let root = free();
        let ranks: Vec<_> = (0..size)
            .map(|rank| {
                let (part, root, job) = (part.clone(), root.clone(), job.to_owned());
                let assignment = Assignment { rank, size, root, job, munge: None, log: Logging::default() };
                std::thread::spawn(move || part(rank, join(&assignment, LONG).unwrap()))
            })
            .collect();
        ranks.into_iter().map(|r| r.join().unwrap()).collect()
    }

    #[test]
    fn a_life() {
        together(5, "job", |rank, mut me| {
            assert_eq!((me.rank(), me.size(), me.name()), (rank, 5, NAME));
            me.put(&format!("k-{rank}"), &vec![u8::try_from(rank).unwrap(); 3000]).unwrap();
            me.fence(LONG).unwrap();
            let peer = (rank + 1) % 5;
            assert_eq!(me.get(&format!("k-{peer}")).unwrap(), vec![u8::try_from(peer).unwrap(); 3000]);
            assert!(me.put(&format!("k-{rank}"), b"again").is_err());
            me.fence(LONG).unwrap();
            assert_eq!(me.get(&format!("k-{peer}")).unwrap().len(), 3000, "what was refused has no effect");
            assert_eq!(me.gone(), None);
            me.finalize().unwrap();
        });
    }

    #[test]
    fn a_life_of_several_worlds() {
        together(4, "job", |rank, mut me| {
            for world in 1..=5u8 {
                // Rank 0 is let go last, so the others may be far in the next world by then.
                assert!(world == 1 || me.put("early", b"").is_err(), "before it came back");
                if world > 1 {
                    me.rejoin().unwrap();
                }
                me.put(&format!("{}_k-{rank}", world + 1), &[world]).unwrap();
                me.fence(LONG).unwrap();
                assert_eq!(me.get(&format!("{}_k-{}", world + 1, (rank + 1) % 4)).unwrap(), [world]);
                assert_eq!(me.gone(), None);
                assert!(me.leave().unwrap());
            }
        });
    }

    #[test]
    fn a_rank_that_ends_in_a_later_world_is_told() {
        let told = together(3, "job", |rank, mut me| {
            me.fence(LONG).unwrap();
            me.leave().unwrap();
            me.rejoin().unwrap();
            me.fence(LONG).unwrap();
            if rank == 2 {
                return None;
            }
            let e = me.fence(LONG).unwrap_err();
            Some((e.kind(), e.peer()))
        });
        assert_eq!(told, [Some((ErrorKind::PeerLost, Some(2))), Some((ErrorKind::PeerLost, Some(2))), None]);
    }

    #[test]
    fn a_rank_that_is_gone_is_reported() {
        let told = together(4, "", |rank, mut me| {
            me.fence(LONG).unwrap();
            match rank {
                3 => {
                    me.abort(7, "no more\nof this");
                    None
                }
                1 => {
                    let e = me.fence(LONG).unwrap_err();
                    assert_eq!((e.kind(), e.peer()), (ErrorKind::PeerLost, Some(3)));
                    me.gone()
                }
                _ => {
                    let end = Instant::now() + LONG;
                    loop {
                        match me.gone() {
                            // 1 leaves, too, when it knows.
                            Some(gone) if gone.rank == 3 => return Some(gone),
                            _ => assert!(Instant::now() < end),
                        }
                    }
                }
            }
        });
        for gone in [&told[0], &told[1], &told[2]] {
            assert_eq!(gone.as_ref().unwrap().how, "aborted the job with code 7: no more of this");
        }
    }

    #[test]
    fn connections_of_other_jobs_are_refused() {
        let root = free();
        let at = |rank, size, job: &str| Assignment {
            rank,
            size,
            root: root.clone(),
            job: job.to_owned(),
            munge: None,
            log: Logging::default(),
        };
        let zero = at(0, 3, "mine");
        let mut me = join(&zero, LONG).unwrap();
        for (assignment, words) in [
            (at(1, 4, "mine"), "CIRCULANT_SIZE is 3 there and 4 here"),
            (at(1, 3, "other"), "another job"),
            (at(1, 3, ""), "another job"),
        ] {
            let e = join(&assignment, LONG).unwrap_err().to_string();
            assert!(e.contains(words), "{e}");
        }
        let mut stranger = TcpStream::connect(&root).unwrap();
        stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let mut said = String::new();
        stranger.read_to_string(&mut said).unwrap();
        assert!(said.contains("is not PMI-1"), "{said}");
        let one = join(&at(1, 3, "mine"), LONG).unwrap();
        let e = join(&at(1, 3, "mine"), LONG).unwrap_err().to_string();
        assert!(e.contains("there is a rank 1 already"), "{e}");
        // The port is taken.
        let e = join(&zero, LONG).unwrap_err().to_string();
        assert!(e.contains("cannot listen"), "{e}");
        drop(one);
        assert_eq!(me.fence(LONG).unwrap_err().peer(), Some(1));
    }

    #[test]
    fn silent_connections_do_not_keep_a_rank_out() {
        let root = free();
        let at = |rank| Assignment {
            rank,
            size: 2,
            root: root.clone(),
            job: "mine".to_owned(),
            munge: None,
            log: Logging::default(),
        };
        let zero = join(&at(0), LONG).unwrap();
        let address: SocketAddr = root.parse().unwrap();
        // Beyond those that are let in and those that the system queues, none can connect.
        let connect = || TcpStream::connect_timeout(&address, Duration::from_secs(5)).ok();
        let silent: Vec<_> = (0..400).map_while(|_| connect()).collect();
        let one = join(&at(1), LONG).unwrap();
        assert_eq!((one.rank(), one.size(), silent.len()), (1, 2, 400));
        drop((silent, one, zero));
    }

    #[test]
    fn without_a_word_only_this_machine_may_be_asked() {
        for (rank, root) in [(0, "0.0.0.0:0"), (1, "192.0.2.1:7000")] {
            let assignment = Assignment {
                rank,
                size: 2,
                root: root.to_owned(),
                job: String::new(),
                munge: None,
                log: Logging::default(),
            };
            let e = join(&assignment, Duration::from_millis(100)).map(|_| ()).unwrap_err().to_string();
            assert!(e.contains("CIRCULANT_JOB is not set"), "rank {rank} at {root}: {e}");
        }
    }

    #[test]
    fn without_rank_0_there_is_an_error() {
        let assignment = Assignment {
            rank: 1,
            size: 2,
            root: free(),
            job: String::new(),
            munge: None,
            log: Logging::default(),
        };
        let e = join(&assignment, Duration::from_millis(100)).unwrap_err();
        assert!(e.to_string().contains("did not answer at CIRCULANT_ROOT="), "{e}");
        assert_eq!(e.peer(), Some(0));
    }
}
