//! Runs a command with a time limit, and finds what it left behind.

use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The tool under test; `TEST_TOOL` names another copy, for a machine that has no target directory.
pub(crate) const TOOL: &str = env!("CARGO_BIN_EXE_circulant");

/// No command of these tests takes longer, unless it hangs or its test says so.
const LIMIT: Duration = Duration::from_secs(60);

const MARK: &str = "LAUNCH_TEST_MARK";

/// A command, perhaps running.
pub(crate) struct Job {
    command: Command,
    /// In the environment of all its descendants.
    pub(crate) mark: String,
    input: Vec<u8>,
    /// When it is taken to hang.
    pub(crate) limit: Duration,
    /// Removed after it.
    pub(crate) files: Vec<PathBuf>,
    running: Option<Running>,
}

struct Running {
    child: Child,
    started: Instant,
    texts: [Arc<Mutex<Vec<u8>>>; 2],
    readers: Vec<JoinHandle<()>>,
}

/// What a command printed, and how it ended.
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) raw: Vec<u8>,
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) took: Duration,
}

impl std::fmt::Debug for Done {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cut = |text: &str| text.chars().take(3000).collect::<String>();
        write!(f, "exit code {}\nstdout: {}\nstderr: {}", self.code, cut(&self.out), cut(&self.err))
    }
}

impl Job {
    pub(crate) fn of(program: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let mark = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let mut command = Command::new(program);
        command.env(MARK, &mark);
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if ["PMI", "SLURM_", "OMPI_", "PALS_", "CIRCULANT_"].iter().any(|p| name.starts_with(p)) {
                command.env_remove(&*name);
            }
        }
        Self { command, mark, input: Vec::new(), limit: LIMIT, files: Vec::new(), running: None }
    }

    /// `circulant run` with these arguments.
    pub(crate) fn run(arguments: &[&str]) -> Self {
        let tool = std::env::var("TEST_TOOL").unwrap_or_else(|_| TOOL.to_owned());
        let mut job = Self::of(&tool);
        job.arguments(&["run"]).arguments(arguments);
        job
    }

    /// This binary in a role, without a launcher.
    pub(crate) fn role(role: &str) -> Self {
        let mut job = Self::of(std::env::current_exe().unwrap().to_str().unwrap());
        job.env("LAUNCH_TEST_ROLE", role);
        job
    }

    pub(crate) fn arguments(&mut self, arguments: &[&str]) -> &mut Self {
        self.command.args(arguments);
        self
    }

    pub(crate) fn env(&mut self, name: &str, value: &str) -> &mut Self {
        self.command.env(name, value);
        self
    }

    /// Runs it as this user.
    pub(crate) fn user(&mut self, id: u32) -> &mut Self {
        self.command.uid(id).gid(id);
        self
    }

    pub(crate) fn input(&mut self, bytes: &[u8]) {
        self.input = bytes.to_vec();
    }

    pub(crate) fn start(&mut self) {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().unwrap();
        let (mut stdin, input) = (child.stdin.take().unwrap(), std::mem::take(&mut self.input));
        // It may be more than a pipe holds, and it may not be read.
        std::thread::spawn(move || stdin.write_all(&input));
        let texts: [Arc<Mutex<Vec<u8>>>; 2] = Default::default();
        let readers = vec![
            reader(child.stdout.take().unwrap(), Arc::clone(&texts[0])),
            reader(child.stderr.take().unwrap(), Arc::clone(&texts[1])),
        ];
        self.running = Some(Running { child, started: Instant::now(), texts, readers });
    }

    /// Waits for the end, which must come.
    pub(crate) fn output(&mut self) -> Done {
        if self.running.is_none() {
            self.start();
        }
        let mut run = self.running.take().unwrap();
        let until = Instant::now() + self.limit;
        let status = loop {
            match run.child.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
                None => {
                    let _ = run.child.kill();
                    let _ = run.child.wait();
                    let text = |i: usize| String::from_utf8_lossy(&run.texts[i].lock().unwrap()).into_owned();
                    panic!("{:?} did not end\nstdout: {}\nstderr: {}", self.command, text(0), text(1));
                }
            }
        };
        let took = run.started.elapsed();
        run.readers.into_iter().for_each(|r| r.join().unwrap());
        let [raw, err] = run.texts.map(|t| std::mem::take(&mut *t.lock().unwrap()));
        Done {
            code: status.code().unwrap_or_else(|| 128 + status.signal().unwrap()),
            out: String::from_utf8_lossy(&raw).into_owned(),
            err: String::from_utf8_lossy(&err).into_owned(),
            raw,
            took,
        }
    }

    /// Waits until its output has `count` times `word`.
    pub(crate) fn wait_for(&mut self, word: &str, count: usize) {
        self.wait_in(0, word, count);
    }

    pub(crate) fn wait_for_error(&mut self, word: &str, count: usize) {
        self.wait_in(1, word, count);
    }

    fn wait_in(&mut self, stream: usize, word: &str, count: usize) {
        let until = Instant::now() + LIMIT;
        let text = Arc::clone(&self.running.as_ref().unwrap().texts[stream]);
        while String::from_utf8_lossy(&text.lock().unwrap()).matches(word).count() < count {
            assert!(Instant::now() < until, "{word:?} did not come {count} times");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.running.as_mut().unwrap().child.try_wait().unwrap().is_none()
    }

    /// What it printed so far.
    pub(crate) fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.running.as_ref().unwrap().texts[0].lock().unwrap()).into_owned()
    }

    /// What it printed on standard error so far.
    pub(crate) fn errors_so_far(&self) -> String {
        String::from_utf8_lossy(&self.running.as_ref().unwrap().texts[1].lock().unwrap()).into_owned()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.running.as_ref().unwrap().child.id()
    }

    pub(crate) fn kill(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid().cast_signed()).unwrap(), signal).unwrap();
    }

    /// The states (`S`, `R`, `Z`, …) of its children.
    pub(crate) fn children(&self) -> Vec<String> {
        let parent = self.pid().to_string();
        processes().filter_map(stat).filter(|s| s[1] == parent).map(|s| s[0].clone()).collect()
    }

    /// Kills the child whose command line has `word` in it.
    pub(crate) fn kill_child(&self, word: &str) {
        let parent = self.pid().to_string();
        let fits = |pid: &u32| {
            stat(*pid).is_some_and(|s| s[1] == parent)
                && std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|c| c.contains(word))
        };
        let found: Vec<u32> = processes().filter(fits).collect();
        assert_eq!(found.len(), 1, "children with {word:?}");
        kill_process(Pid::from_raw(found[0].cast_signed()).unwrap(), Signal::KILL).unwrap();
    }

    /// CPU time used so far, in ticks (10 ms).
    pub(crate) fn cpu_ticks(&self) -> u64 {
        ticks(self.pid())
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if let Some(run) = &mut self.running {
            let _ = run.child.kill();
            let _ = run.child.wait();
        }
        for file in &self.files {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// `circulant run` with these arguments, to its end.
pub(crate) fn run(arguments: &[&str]) -> Done {
    Job::run(arguments).output()
}

/// `circulant run` of this binary in a role.
pub(crate) fn run_role(role: &str, arguments: &[&str]) -> Done {
    let me = std::env::current_exe().unwrap();
    let mut job = Job::run(arguments);
    job.arguments(&["--", me.to_str().unwrap()]);
    job.env("LAUNCH_TEST_ROLE", role).output()
}

/// Processes with this mark that are alive.
pub(crate) fn alive(mark: &str) -> Vec<u32> {
    let wanted = format!("{MARK}={mark}");
    let marked = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&b| b == 0).any(|v| v == wanted.as_bytes())
    };
    processes().filter(marked).filter(|&p| stat(p).is_some_and(|s| s[0] != "Z")).collect()
}

/// Those whose command line has `word` in it; a zero byte is behind each of its words.
pub(crate) fn named(mark: &str, word: &str) -> Vec<u32> {
    let line = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    alive(mark).into_iter().filter(|&pid| line(pid).contains(word)).collect()
}

/// CPU time that a process used so far, in ticks (10 ms).
pub(crate) fn ticks(pid: u32) -> u64 {
    let Some(stat) = stat(pid) else { return 0 };
    stat[11].parse::<u64>().unwrap() + stat[12].parse::<u64>().unwrap()
}

/// A number that no other test of this run has.
pub(crate) fn unique() -> usize {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    COUNT.fetch_add(1, Ordering::Relaxed)
}

/// All processes with this mark must vanish, soon.
pub(crate) fn none_left(mark: &str) {
    let until = Instant::now() + Duration::from_secs(5);
    while !alive(mark).is_empty() {
        assert!(Instant::now() < until, "processes {:?} were left behind", alive(mark));
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a program is installed.
pub(crate) fn have(program: &str) -> bool {
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(|p| p.join(program).is_file())
}

/// Whether programs of MPICH can be compiled: Debian's has its headers in a package of their own.
pub(crate) fn compiles_mpich() -> bool {
    let mut compiler = Command::new("mpicc.mpich");
    compiler.args(["-fsyntax-only", "-include", "mpi.h", "-x", "c", "/dev/null"]).stderr(Stdio::null());
    have("mpicc.mpich") && compiler.status().is_ok_and(|status| status.success())
}

/// A path for a file of this test run.
pub(crate) fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("launch-{}-{name}", std::process::id()))
}

fn processes() -> impl Iterator<Item = u32> {
    let all = std::fs::read_dir("/proc").unwrap();
    all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// The fields of /proc/pid/stat from the state on.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(text.rsplit_once(") ")?.1.split(' ').map(str::to_owned).collect())
}

fn reader(mut from: impl Read + Send + 'static, to: Arc<Mutex<Vec<u8>>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = [0; 65536];
        while let Ok(len) = from.read(&mut buffer)
            && len > 0
        {
            to.lock().unwrap().extend_from_slice(&buffer[..len]);
        }
    })
}
