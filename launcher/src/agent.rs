//! An agent: what the launcher starts on another host. It greets, runs the ranks of its host, starts the agents
//! below it, and ends with all of them when its standard input does, which is the launcher's word and life.

use super::link::Link;
use super::message::{Down, Up, greeting};
use super::output::say;
use super::poll::Poll;
use super::setup::Setup;
use super::{bind, job};
use circulant::error::{Error, ErrorKind, Result};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long the launcher may take to say what the job is.
const PATIENCE: Duration = Duration::from_secs(60);

/// The agent: serves its launcher over standard input and output. To be called on the main thread.
pub fn agent_main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("agent: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<()> {
    let poll = Poll::new()?;
    // Copies that the programs we start do not inherit.
    let input = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).map_err(std::io::Error::from)?;
    let output = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3).map_err(std::io::Error::from)?;
    let mut up = Link::new(input, output, &poll, job::UP)
        .map_err(|e| Error::new(ErrorKind::Launch, format!("this is for circulant run's own use: {e}")))?;
    let setup = setup(&mut up, &poll)?;
    up.send(&poll, greeting(&setup.secret).as_bytes());
    if setup.version != env!("CARGO_PKG_VERSION") {
        let host = setup.sites[0].index;
        let own = env!("CARGO_PKG_VERSION");
        let why = format!("its circulant is version {own}, the launcher's {}", setup.version);
        up.send(&poll, Up::Failed(host, why.clone()).encode());
        return Err(Error::new(ErrorKind::Launch, why));
    }
    if std::env::var_os("SLURM_STEP_ID").is_some() {
        // Slurm may have bound the one task that it knows of, us, to one core.
        bind::free();
    }
    job::agent(setup, up, poll)
}

/// The first message.
fn setup(up: &mut Link, poll: &Poll) -> Result<Setup> {
    let until = Instant::now() + PATIENCE;
    loop {
        let open = up.read();
        match up.frames.pop().map(|f| f.map(|(kind, payload)| Down::decode(kind, &payload))) {
            Ok(Some(Some(Down::Setup(setup)))) => return Ok(*setup),
            Ok(None) if !open => {
                return Err(Error::new(ErrorKind::Launch, "the launcher is gone before it said anything"));
            }
            Ok(None) => {}
            _ => {
                let message = "what the launcher says makes no sense to this version of circulant";
                return Err(Error::new(ErrorKind::Launch, message));
            }
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::new(ErrorKind::Timeout, "the launcher does not say what to do"));
        }
        poll.wait(Some(left))?;
    }
}
