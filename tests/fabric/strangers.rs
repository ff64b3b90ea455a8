//! Processes that are not of the job, at the endpoint of one that is: what they say is dropped, and what they do to the port changes
//! nothing.

use crate::node::{Log, Node, Random, TIMEOUT, options};
use circulant::config::Sources;
use circulant::secret::Secret;
use circulant::transport::fabric::{Fabric, Options};
use circulant::transport::{Access, Posted, Source, Transport};
use rustix::net;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The user of this number may do nothing on most systems.
const NOBODY: u32 = 65_534;

/// Bytes that a stranger would write, and of the memory that it would write to.
const BYTES: usize = 4096;

struct End {
    wire: Fabric,
    log: Log,
    memory: &'static mut [u8],
}

impl End {
    fn open(provider: &str, word: &str) -> Self {
        Self::with(provider, word, &Sources::All)
    }

    fn with(provider: &str, word: &str, sources: &Sources) -> Self {
        let secret = Secret::of_word(word);
        let wire = Fabric::open(&Options { secret: Some(&secret), sources, ..options(provider) }).unwrap();
        Self { wire, log: Log::default(), memory: Box::leak(vec![7; BYTES].into_boxed_slice()) }
    }

    fn poll(&mut self) {
        self.wire.poll(&mut self.log).unwrap();
    }

    /// Sends, with all polling until it is taken.
    fn say(&mut self, bytes: &[u8], others: &mut [&mut End]) {
        let start = Instant::now();
        while self.wire.message(0, bytes).unwrap() == Posted::Again {
            self.poll();
            others.iter_mut().for_each(|other| other.poll());
            assert!(start.elapsed() < TIMEOUT, "a message is never taken");
        }
    }
}

/// All poll until `done` of the first.
fn poll_until(ends: &mut [&mut End], what: &str, done: impl Fn(&End) -> bool) {
    let start = Instant::now();
    while !done(ends[0]) {
        ends.iter_mut().for_each(|end| end.poll());
        ends[0].wire.idle(Duration::from_millis(1));
        assert!(start.elapsed() < TIMEOUT, "{what}: {:?}", ends[0].log.lost);
    }
}

/// A libfabric client that knows the address, but not the secret: its messages are dropped and counted, it cannot write, and no rank is
/// taken for lost.
pub(crate) fn strangers_are_not_heard(provider: &str) {
    let (mut ours, mut friend, mut stranger) =
        (End::open(provider, "ours"), End::open(provider, "ours"), End::open(provider, "guess"));
    let address = ours.wire.address();
    friend.wire.connect(0, &address).unwrap();
    stranger.wire.connect(0, &address).unwrap();
    let longest = ours.wire.limits().message;
    let lengths = [0, 1, 7, 8, 59, 200, longest - 1, longest];
    for (i, len) in (1..).zip(lengths) {
        friend.say(&vec![3; len], &mut [&mut ours, &mut stranger]);
        poll_until(&mut [&mut ours, &mut friend], "what is ours comes", |e| e.log.messages.len() == i);
        assert_eq!(ours.log.messages[i - 1], vec![3; len]);
        stranger.say(&vec![9; len], &mut [&mut ours, &mut friend]);
        let dropped = i as u64;
        poll_until(&mut [&mut ours, &mut stranger], "what is not is dropped", |e| {
            e.wire.dropped() == dropped
        });
    }
    write_by_guess(&mut ours, &mut stranger);
    // The stranger may have lost its connection by that, and we nothing.
    friend.say(b"after", &mut [&mut ours]);
    poll_until(&mut [&mut ours, &mut friend], "what is ours comes", |e| {
        e.log.messages.last().is_some_and(|m| m == b"after")
    });
    assert_eq!(ours.log.messages.len(), lengths.len() + 1);
    assert!(ours.log.lost.is_empty() && ours.log.arrivals.is_empty(), "{:?}", ours.log.lost);
    assert!(ours.memory.iter().all(|b| *b == 7));
    for mut end in [stranger, friend, ours] {
        end.wire.close().unwrap();
    }
}

/// Puts by keys that were not told, until the put fails or is over.
fn write_by_guess(ours: &mut End, stranger: &mut End) {
    // Where the provider chooses keys they can be guessed, and where it checks none there is nothing to guess.
    if ours.wire.limits().chooses_keys || ours.wire.limits().provider == "shm" {
        return;
    }
    // SAFETY: both are leaked, so valid for ever; they are read where no put is under way that could reach them.
    let (remote, source) = unsafe {
        let (_, remote) = ours.wire.register(ours.memory.as_mut_ptr(), BYTES, Access::Target).unwrap();
        let theirs = stranger.memory.as_mut_ptr();
        let (registration, _) = stranger.wire.register(theirs, BYTES, Access::Source).unwrap();
        (remote, Source { ptr: theirs, len: BYTES, registration })
    };
    // The nearest keys would be those of other memory of the same endpoint: those are guessed as little.
    let key = remote.key ^ 1 << 40;
    // SAFETY: as above.
    let posted = unsafe { stranger.wire.put(0, &[source], remote.base, key, 1, 77) };
    let start = Instant::now();
    while matches!(posted, Ok(Posted::Yes)) && stranger.log.lost.is_empty() && stranger.log.done.is_empty() {
        stranger.poll();
        ours.poll();
        // Some providers never say: then it was time enough.
        if start.elapsed() > Duration::from_secs(2) {
            return;
        }
    }
}

/// Connections to the port by who does not speak libfabric's protocol, or begins to.
pub(crate) fn strangers_at_the_port(provider: &str) {
    let (mut ours, mut friend) = (End::open(provider, "ours"), End::open(provider, "ours"));
    // Where the wire has no port there is nothing to connect to; and the listener of sockets waits for each connection to say
    // something, so that a silent one keeps out all others (SECURITY.md).
    let Ok(port) = ours.wire.place().parse::<SocketAddr>() else { return };
    if provider == "sockets" {
        return;
    }
    friend.wire.connect(0, &ours.wire.address()).unwrap();
    let mut random = Random::new();
    let mut noise = vec![0; 4096];
    random.fill(&mut noise);
    let mut held = Vec::new();
    for (i, said) in
        [&b""[..], b"x", b"GET / HTTP/1.1\r\n\r\n", &noise].into_iter().cycle().take(60).enumerate()
    {
        if let Ok(mut stream) = TcpStream::connect_timeout(&port, Duration::from_secs(1)) {
            // It may be closed at once.
            let _ = stream.write_all(said);
            if i % 2 == 0 {
                held.push(stream);
            }
        }
        friend.say(&[5; 40], &mut [&mut ours]);
        poll_until(&mut [&mut ours, &mut friend], "what is ours comes", |e| e.log.messages.len() == i + 1);
    }
    assert!(
        ours.log.messages.iter().all(|m| m == &[5; 40]) && ours.log.lost.is_empty(),
        "{:?}",
        ours.log.lost
    );
    for mut stream in held {
        let _ = stream.set_nonblocking(true);
        let _ = stream.read(&mut noise);
    }
    for mut end in [friend, ours] {
        end.wire.close().unwrap();
    }
}

/// Speaks the protocol of libfabric's tcp (version 3), as a connection to a rank's port.
struct Raw(TcpStream);

impl Raw {
    /// Its connection is accepted, as libfabric accepts every one; it says that it listens at the port `claimed`.
    fn connect(port: SocketAddr, claimed: u16, ours: &mut End) -> Self {
        let mut stream = TcpStream::connect_timeout(&port, TIMEOUT).unwrap();
        let mut request = [0; 40];
        // Version, kind, and bytes behind the header; the order of our bytes; the protocol's version, the port and the process that it claims.
        (request[0], request[3], request[24], request[32]) = (3, 8, 1, 0);
        request[34..36].copy_from_slice(&claimed.to_be_bytes());
        request[36..40].copy_from_slice(&std::process::id().to_be_bytes());
        stream.write_all(&request).unwrap();
        stream.set_nonblocking(true).unwrap();
        let (start, mut answer) = (Instant::now(), [0; 40]);
        let mut came = 0;
        while came < answer.len() {
            ours.poll();
            came += stream.read(&mut answer[came..]).unwrap_or(0);
            assert!(start.elapsed() < TIMEOUT, "no answer to a connection: {came}");
        }
        stream.set_nonblocking(false).unwrap();
        Self(stream)
    }

    /// A message that says it has `len` bytes, with `bytes` of it.
    fn message(&mut self, len: u64, bytes: &[u8]) {
        let mut header = [3, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        header[8..].copy_from_slice(&(16 + len).to_ne_bytes());
        self.0.write_all(&[&header[..], bytes].concat()).unwrap();
    }
}

/// Messages of a client that speaks libfabric's protocol by itself, without a tag, and longer than a rank's buffers.
pub(crate) fn raw_messages_are_dropped(provider: &str) {
    let (mut ours, mut friend) = (End::open(provider, "ours"), End::open(provider, "ours"));
    let speaks = ["net", "tcp"].contains(&ours.wire.limits().provider.as_str());
    let Some(port) = ours.wire.place().parse().ok().filter(|_| speaks) else { return };
    friend.wire.connect(0, &ours.wire.address()).unwrap();
    let mut raws = Vec::new();
    for (dropped, len) in (1..).zip([0, 20, 8064, 8072, 8128, 8129, 100_000]) {
        // Each by a connection of its own: one whose message was too long may be closed.
        let mut raw = Raw::connect(port, u16::try_from(dropped).unwrap(), &mut ours);
        raw.message(len, &vec![1; usize::try_from(len).unwrap()]);
        raws.push(raw);
        let what = format!("a message of {len} bytes is dropped");
        poll_until(&mut [&mut ours], &what, |e| e.wire.dropped() == dropped);
        friend.say(b"ours", &mut [&mut ours]);
        let all = usize::try_from(dropped).unwrap();
        poll_until(&mut [&mut ours, &mut friend], "what is ours comes", |e| e.log.messages.len() == all);
    }
    assert!(
        ours.log.lost.is_empty() && ours.log.messages.iter().all(|m| m == b"ours"),
        "{:?}",
        ours.log.lost
    );
    drop(raws);
    for mut end in [friend, ours] {
        end.wire.close().unwrap();
    }
}

/// A process of another user finds nothing of a rank that it can open: no shared memory, neither by its descriptors nor by its mappings,
/// nor its environment, where the job's word may stand; and the rank's memory is what it was.
pub(crate) fn another_user_is_kept_out() {
    let mut node = Node::open("shm", 0);
    node.write(0, b"ours");
    let own = |entry: std::io::Result<std::fs::DirEntry>| {
        let (path, to) = (entry.as_ref().unwrap().path(), std::fs::read_link(entry.unwrap().path()));
        // Of those that are there now; the folder that is read has one, too.
        Some((path, to.ok()?)).filter(|(_, to)| to.to_string_lossy().starts_with("/memfd:circulant-"))
    };
    let pid = std::process::id();
    let files: Vec<_> = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(own).collect();
    assert!(!files.is_empty(), "the rank's memory is there");
    for (path, _) in &files {
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let paths = files.iter().map(|(path, _)| path.to_string_lossy().replace("self", &pid.to_string()));
    let rest = ["environ", "mem", "maps", "map_files"].map(|name| format!("/proc/{pid}/{name}"));
    // As another user: the same commands as ours, to see that it is the user that they fail for.
    for path in paths.chain(rest) {
        let script = "if test -d $0; then ls $0; else head -c 1 $0 || : >> $0; fi";
        let mut command = Command::new("sh");
        command.args(["-c", script, &path]).stdout(Stdio::null()).stderr(Stdio::null());
        let theirs = command.uid(NOBODY).gid(NOBODY).current_dir("/").status().unwrap();
        assert!(!theirs.success(), "{path} can be opened by another user");
    }
    assert_eq!(node.read(0, 4), b"ours");
}

/// Whether a connection from `from` to `port` is taken, within a second.
fn is_taken(from: [u8; 4], port: SocketAddr) -> bool {
    let socket = net::socket(net::AddressFamily::INET, net::SocketType::STREAM, None).unwrap();
    net::bind(&socket, &SocketAddr::from((from, 0))).unwrap();
    // It holds for connect, too.
    let limit = Some(Duration::from_secs(1));
    net::sockopt::set_socket_timeout(&socket, net::sockopt::Timeout::Send, limit).unwrap();
    net::connect(&socket, &port).is_ok()
}

/// With the setting `sources` the kernel answers no others, and the endpoint trades messages with ours.
pub(crate) fn only_sources_can_connect(provider: &str) {
    let sources = Sources::Only(vec!["192.0.2.0/24".parse().unwrap(), "127.0.1.0/24".parse().unwrap()]);
    let (mut ours, mut friend) = (End::with(provider, "ours", &sources), End::open(provider, "ours"));
    let Ok(port) = ours.wire.place().parse::<SocketAddr>() else { return };
    let from = [[127, 0, 0, 9], [127, 0, 2, 1], [127, 0, 1, 1], [127, 0, 0, 1]];
    assert_eq!(from.map(|from| is_taken(from, port)), [false, false, true, true]);
    let open = friend.wire.place().parse().unwrap();
    assert_eq!(from.map(|from| is_taken(from, open)), [true; 4], "without the setting");
    if provider == "sockets" {
        // Its listener waits for the connections above to say something.
        return;
    }
    friend.wire.connect(0, &ours.wire.address()).unwrap();
    friend.say(b"ours", &mut [&mut ours]);
    poll_until(&mut [&mut ours, &mut friend], "what is ours comes", |e| e.log.messages.len() == 1);
    for mut end in [friend, ours] {
        end.wire.close().unwrap();
    }
}
