//! One world after the other in one process. A launcher takes each rank in once, and with most a finalize is the last: so the
//! process keeps its connection, and lends it to one [`Session`] at a time. The keys of each have its number in front, as a
//! launcher takes each key once.

use super::{Gone, Launch, check_key, exit};
use crate::config::Launcher;
use crate::error::{Error, ErrorKind, Result};
use crate::secret::Secret;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A connection to a launcher that can serve several sessions.
pub(super) trait Client: Launch {
    /// Ends a session. Finalizes where the launcher takes this rank in again (`true`); else that is left for the end of the
    /// process ([`Launch::finalize`]).
    ///
    /// # Errors
    /// When the connection is of no more use.
    fn leave(&mut self) -> Result<bool>;
    /// Begins another one, after a finalize.
    ///
    /// # Errors
    /// When the launcher is gone.
    fn rejoin(&mut self) -> Result<()>;
}

/// What became of this process's connection.
enum State {
    /// There was none.
    Apart,
    /// A session has it, or begins or ends.
    Lent,
    /// The last session ended well.
    Kept(Connection),
    /// A session did not: for the launcher, or the other ranks, we are gone.
    Lost,
}

#[derive(Debug)]
struct Connection {
    client: Box<dyn Client>,
    way: Launcher,
    /// What the user gave the ranks to know.
    secret: Secret,
    /// How many sessions it has served, this one too.
    sessions: u32,
    /// Finalize was called.
    away: bool,
}

static STATE: Mutex<State> = Mutex::new(State::Apart);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Joins the job by `way`, as `connect` does, for the first session of this process; `secret` is what the user gave its ranks to know.
///
/// # Errors
/// What `connect` says; when the process has joined already.
pub(super) fn first<C: Client + 'static>(
    way: Launcher,
    secret: Secret,
    connect: impl FnOnce() -> Result<C>,
) -> Result<Box<dyn Launch>> {
    match &mut *state() {
        place @ State::Apart => *place = State::Lent,
        _ => return Err(busy()),
    }
    match connect() {
        Ok(client) => {
            Ok(Session::boxed(Connection { client: Box::new(client), way, secret, sessions: 1, away: false }))
        }
        Err(e) => {
            // Without its library no launcher was asked.
            *state() = if e.kind() == ErrorKind::Library { State::Apart } else { State::Lost };
            Err(e)
        }
    }
}

/// A further session, if there was one. `asked`: the setting `launcher`.
///
/// # Errors
/// When the one before has not ended, or not well; when it was by another way; when the launcher is gone.
pub(super) fn next(asked: Launcher) -> Result<Option<Box<dyn Launch>>> {
    let mut connection = {
        let mut state = state();
        match &mut *state {
            State::Apart => return Ok(None),
            State::Lent => return Err(busy()),
            State::Lost => return Err(lost()),
            State::Kept(c) if ![Launcher::Auto, c.way].contains(&asked) => {
                let (asked, way) = (asked.name(), c.way.name());
                let what =
                    format!("CIRCULANT_LAUNCHER={asked}, but this process has joined its job by {way}");
                return Err(Error::new(ErrorKind::Launch, what).help("a process is of one job only"));
            }
            State::Kept(_) => {}
        }
        match std::mem::replace(&mut *state, State::Lent) {
            State::Kept(connection) => connection,
            _ => return Err(busy()),
        }
    };
    if connection.away
        && let Err(e) = connection.client.rejoin()
    {
        *state() = State::Lost;
        return Err(e);
    }
    connection.sessions += 1;
    connection.away = false;
    Ok(Some(Session::boxed(connection)))
}

fn busy() -> Error {
    Error::new(ErrorKind::Launch, "this process has a World of its job already").help(
        "under a launcher there is one at a time: share it (dup, split), or finalize it before you make another; after one \
         that failed there is none",
    )
}

fn lost() -> Error {
    let what = "an earlier World of this process failed or was not finalized, so this rank has left its job";
    Error::new(ErrorKind::Launch, what).help("end the process, and start the job anew")
}

/// Finalizes, unless a world failed or is still there: then the launcher shall not take this for the end of a good rank.
fn finalize_at_exit() {
    // If another thread has the lock, it begins or ends a session, and the process ends in the middle of that.
    let Ok(mut state) = STATE.try_lock() else { return };
    let State::Kept(mut connection) = std::mem::replace(&mut *state, State::Lost) else { return };
    drop(state);
    if !connection.away {
        // An error has no caller to go to.
        let _ = connection.client.finalize();
    }
}

/// The launcher, for one world. Ends the part of this rank if it is dropped without [`Launch::finalize`].
#[derive(Debug)]
struct Session {
    name: String,
    rank: usize,
    size: usize,
    connection: Option<Connection>,
}

impl Session {
    fn boxed(connection: Connection) -> Box<dyn Launch> {
        let client = &connection.client;
        let (name, rank, size) = (client.name().to_owned(), client.rank(), client.size());
        Box::new(Self { name, rank, size, connection: Some(connection) })
    }

    /// The launcher, and `key` as it stands there.
    fn at(&mut self, key: &str) -> Result<(&mut dyn Client, String)> {
        check_key(key)?;
        let number = self.connection.as_ref().map_or(1, |c| c.sessions);
        Ok((self.client()?, numbered(number, key)))
    }

    fn client(&mut self) -> Result<&mut dyn Client> {
        let over =
            || Error::new(ErrorKind::Launch, format!("{}: already finalized", self.name)).at_rank(self.rank);
        self.connection.as_mut().map(|c| c.client.as_mut() as &mut dyn Client).ok_or_else(over)
    }
}

/// `key` of the session of this number. An underscore never occurs in our keys, so those of different sessions cannot meet.
fn numbered(session: u32, key: &str) -> String {
    match session {
        1 => key.to_owned(),
        n => format!("{n}_{key}"),
    }
}

impl Launch for Session {
    fn name(&self) -> &str {
        &self.name
    }

    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn put(&mut self, key: &str, value: &[u8]) -> Result<()> {
        let (client, key) = self.at(key)?;
        client.put(&key, value)
    }

    fn put_for(&mut self, key: &str, value: &[u8], readers: &[u32]) -> Result<()> {
        let (client, key) = self.at(key)?;
        client.put_for(&key, value, readers)
    }

    fn fence(&mut self, deadline: Duration) -> Result<()> {
        self.client()?.fence(deadline)
    }

    fn start_fence(&mut self) -> Result<bool> {
        self.client()?.start_fence()
    }

    fn test_fence(&mut self) -> Result<bool> {
        self.client()?.test_fence()
    }

    fn late(&mut self) -> Option<Vec<usize>> {
        self.client().ok()?.late()
    }

    fn get(&mut self, key: &str) -> Result<Vec<u8>> {
        let (client, key) = self.at(key)?;
        client.get(&key)
    }

    fn secret(&self) -> Secret {
        self.connection.as_ref().map_or_else(|| Secret::of_word(""), |c| c.secret.clone())
    }

    fn nodes(&self) -> Option<Vec<u32>> {
        self.connection.as_ref()?.client.nodes()
    }

    fn gone(&mut self) -> Option<Gone> {
        self.connection.as_mut()?.client.gone()
    }

    fn report(&mut self, error: &Error) {
        if let Some(c) = &mut self.connection {
            c.client.report(error);
        }
    }

    fn abort(&mut self, code: i32, message: &str) {
        if let Some(c) = &mut self.connection {
            c.client.abort(code, message);
        }
    }

    fn finalize(&mut self) -> Result<()> {
        self.client()?;
        let Some(mut connection) = self.connection.take() else { return Ok(()) };
        let left = match connection.client.leave() {
            // Where nothing can be done at exit, it is said now, and was the last session.
            Ok(false) if !exit::at_exit(finalize_at_exit) => connection.client.finalize().map(|()| true),
            other => other,
        };
        match left {
            Ok(away) => {
                connection.away = away;
                *state() = State::Kept(connection);
                Ok(())
            }
            Err(e) => {
                *state() = State::Lost;
                Err(e)
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.connection.is_some() {
            *state() = State::Lost;
        }
    }
}
