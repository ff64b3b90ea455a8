//! Standard input, where it does not simply pass to a rank of ours: read piece by piece, each of which is
//! handed on only when all that read it have taken the last one.

use std::io::{IsTerminal, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::ChildStdin;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Longest piece.
const PIECE: usize = 64 * 1024;

/// Reads our standard input.
#[derive(Debug)]
pub(super) struct Reader {
    go: Sender<()>,
    pieces: Receiver<Vec<u8>>,
}

impl Reader {
    /// Starts reading the first piece. A byte goes to `wake` when there is one.
    pub(super) fn start(wake: UnixStream) -> std::io::Result<Self> {
        let (go, going) = channel();
        let (send, pieces) = channel();
        let body = move || {
            let mut buffer = vec![0; PIECE];
            while going.recv().is_ok() {
                let len = read(&mut buffer);
                let sent = send.send(buffer[..len].to_vec());
                // A socket that is full wakes, too.
                let _ = (&wake).write(b"i");
                if sent.is_err() || len == 0 {
                    break;
                }
            }
        };
        std::thread::Builder::new().name("input".to_owned()).spawn(body)?;
        let reader = Self { go, pieces };
        reader.go_on();
        Ok(reader)
    }

    /// A piece, if there is one; nothing in it is the end.
    pub(super) fn take(&self) -> Option<Vec<u8>> {
        self.pieces.try_recv().ok()
    }

    /// Reads the next.
    pub(super) fn go_on(&self) {
        // After the end there is no reader to tell.
        let _ = self.go.send(());
    }
}

/// How much was read; 0 is the end.
fn read(buffer: &mut [u8]) -> usize {
    let mut stdin = std::io::stdin();
    loop {
        // In the background we may not read the terminal: that is the end of the input, not a reason to be stopped.
        let front =
            || rustix::termios::tcgetpgrp(rustix::stdio::stdin()).ok() == Some(rustix::process::getpgrp());
        if stdin.is_terminal() && !front() {
            return 0;
        }
        match stdin.read(buffer) {
            Ok(len) => return len,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return 0,
        }
    }
}

/// Writes pieces to the standard inputs of ranks here.
#[derive(Debug)]
pub(super) struct Feeder {
    pieces: Sender<Vec<u8>>,
    taken: Receiver<()>,
}

impl Feeder {
    /// Starts; a byte goes to `wake` when a piece is taken.
    pub(super) fn start(to: Vec<ChildStdin>, wake: UnixStream) -> std::io::Result<Self> {
        let (pieces, coming) = channel::<Vec<u8>>();
        let (send, taken) = channel();
        let body = move || {
            let mut to = to;
            for piece in coming {
                if piece.is_empty() {
                    to.clear();
                }
                // One that ended or closed its input wants no more.
                to.retain_mut(|stdin| stdin.write_all(&piece).is_ok());
                let sent = send.send(());
                let _ = (&wake).write(b"t");
                if sent.is_err() {
                    break;
                }
            }
        };
        std::thread::Builder::new().name("feeder".to_owned()).spawn(body)?;
        Ok(Self { pieces, taken })
    }

    /// Whether a rank will take it.
    pub(super) fn feed(&self, piece: Vec<u8>) -> bool {
        self.pieces.send(piece).is_ok()
    }

    /// Whether the piece was taken, once.
    pub(super) fn is_taken(&self) -> bool {
        self.taken.try_recv().is_ok()
    }
}
