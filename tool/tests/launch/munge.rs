//! Ranks that no launcher started and that munge shows to be of one user, with a real munged of these tests' own.

use crate::alone::{free_port, line, without_launcher_by};
use crate::job::{self, Job};
use rustix::process::geteuid;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Any user but the one of these tests.
const NOBODY: u32 = 65534;

/// Names of these tests, and whether the test can run here.
pub(crate) fn tests() -> Vec<(&'static str, fn(), bool)> {
    let munge = daemon().is_some();
    vec![
        ("munge_stands_for_a_word", munge_stands_for_a_word, munge),
        ("munge_refuses_other_users", munge_refuses_other_users, munge && geteuid().is_root()),
        ("munge_that_is_missing_is_named", munge_that_is_missing_is_named, true),
    ]
}

fn daemon() -> Option<PathBuf> {
    ["/usr/sbin/munged", "/usr/local/sbin/munged"].map(PathBuf::from).into_iter().find(|path| path.is_file())
}

/// A munged with a key of its own, until it is dropped.
struct Munged {
    child: Child,
    folder: PathBuf,
}

impl Munged {
    fn start(name: &str) -> Self {
        // Other users reach its socket; the folder that cargo gives may be closed to them.
        let folder = std::env::temp_dir().join(format!("circulant-munge-{}-{name}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o711)).unwrap();
        let key = folder.join("key");
        let mut bytes = [0; 128];
        std::fs::File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bytes)).unwrap();
        std::fs::write(&key, bytes).unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        let mut command = Command::new(daemon().unwrap());
        command
            .args(["--force", "--foreground"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        for name in ["key-file", "socket", "pid-file", "log-file", "seed-file"] {
            command.arg(format!(
                "--{name}={}/{}",
                folder.display(),
                name.split_once('-').map_or(name, |(n, _)| n)
            ));
        }
        let munged = Self { child: command.spawn().unwrap(), folder };
        let until = Instant::now() + Duration::from_secs(20);
        while !Path::new(&munged.socket()).exists() {
            assert!(Instant::now() < until, "munged does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
        munged
    }

    fn socket(&self) -> String {
        format!("{}/socket", self.folder.display())
    }

    /// A credential of the user `user` with this payload, which everyone can decode.
    fn credential(&self, user: u32, payload: &[u8]) -> String {
        let mut munge = Command::new("munge");
        munge.args(["-S", &self.socket()]).uid(user).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut munge = munge.spawn().unwrap();
        munge.stdin.take().unwrap().write_all(payload).unwrap();
        let done = munge.wait_with_output().unwrap();
        assert!(done.status.success());
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }
}

impl Drop for Munged {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Ranks of one user find each other without a word, also where rank 0 listens to the network; and a word beside it must be the same.
fn munge_stands_for_a_word() {
    let munged = Munged::start("word");
    let socket = munged.socket();
    let port = free_port().replace("127.0.0.1", "0.0.0.0");
    let open = without_launcher_by("values 5000", 4, &port, &[("CIRCULANT_MUNGE", &socket)]);
    let worded = [("CIRCULANT_MUNGE", &socket[..]), ("CIRCULANT_JOB", "this-test")];
    for done in open.into_iter().chain(without_launcher_by("values 100", 2, &free_port(), &worded)) {
        assert_eq!((done.code, &done.out[..]), (0, "ok\n"), "{done:?}");
    }
}

/// What a stranger hears from the port at `port` when it shows this credential, with a proof that is none.
fn shown(port: &str, credential: &str) -> String {
    let until = Instant::now() + Duration::from_secs(60);
    let mut stream = loop {
        match TcpStream::connect(port) {
            Ok(stream) => break stream,
            Err(e) => assert!(Instant::now() < until, "{e}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(line(&mut stream).starts_with("cmd=challenge "));
    let zeros = "0".repeat(64);
    writeln!(stream, "cmd=initack pmiid=1/2 nonce={zeros} proof={zeros}{credential}").unwrap();
    line(&mut stream)
}

/// A rank of another user is refused by name, as are credentials of others, of other purposes, used ones and none; the job ends well.
fn munge_refuses_other_users() {
    let munged = Munged::start("users");
    let socket = munged.socket();
    let munge = [("CIRCULANT_MUNGE", &socket[..])];
    let port = free_port();
    let mut zero = crate::alone::start("values 100", (0, 2), &port, &munge);
    let own = munged.credential(0, b"something");
    for (credential, why) in [
        (String::new(), "it shows no credential of munge (CIRCULANT_MUNGE)"),
        (" munge=MUNGE:nonsense:".to_owned(), "munge refuses its credential: Invalid credential"),
        (
            format!(" munge={}", munged.credential(NOBODY, b"something")),
            "munge says that it is of user 65534, and this job is of user 0",
        ),
        (format!(" munge={own}"), "its munge credential is of another connection"),
        (format!(" munge={own}"), "munge refuses its credential: Replayed credential"),
    ] {
        let told = shown(&port, &credential);
        assert!(told.starts_with("cmd=refused value=") && told.contains(why), "{credential}: {told}");
    }
    // This very program, as another user: in a place that it reaches.
    let copy = munged.folder.join("rank");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let mut theirs = Job::of(copy.to_str().unwrap());
    theirs.user(NOBODY).env("LAUNCH_TEST_ROLE", "values 100").env("CIRCULANT_ROOT", &port);
    theirs.env("CIRCULANT_RANK", "1").env("CIRCULANT_SIZE", "2").env("CIRCULANT_MUNGE", &socket);
    let theirs = theirs.output();
    let refused = "rank 0 refuses us: munge refuses its credential: Unauthorized credential";
    assert!(theirs.code != 0 && theirs.err.contains(refused), "{theirs:?}");
    // And one of our user that does not ask munge, or another job's that does.
    let plain = crate::alone::start("values 100", (1, 2), &port, &[]).output();
    assert!(plain.code != 0 && plain.err.contains("shows no credential of munge"), "{plain:?}");
    let one = crate::alone::start("values 100", (1, 2), &port, &munge).output();
    let zero = zero.output();
    assert_eq!(
        (zero.code, one.code, &zero.out[..], &one.out[..]),
        (0, 0, "ok\n", "ok\n"),
        "{zero:?} {one:?}"
    );
    assert!(zero.err.contains("circulant: warning: rank 0 has closed a connection from "), "{zero:?}");
}

/// Without the library or the daemon the error says so, and what to do.
fn munge_that_is_missing_is_named() {
    let socket = job::scratch("no-munged");
    let munge = [("CIRCULANT_MUNGE", socket.to_str().unwrap())];
    let done = crate::alone::start("values 100", (0, 2), &free_port(), &munge).output();
    let said = ["libmunge.so.2 cannot be loaded", "munge gives no credential: Failed to access"];
    assert!(done.code != 0 && said.iter().any(|said| done.err.contains(said)), "{done:?}");
    assert!(done.err.contains("CIRCULANT_MUNGE is set, and"), "{done:?}");
    let done =
        crate::alone::start("values 100", (0, 2), &free_port(), &[("CIRCULANT_MUNGE", "maybe")]).output();
    assert!(done.code != 0 && done.err.contains("CIRCULANT_MUNGE=maybe is neither yes, no"), "{done:?}");
}
