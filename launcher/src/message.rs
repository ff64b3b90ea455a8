//! What launcher and agents say to each other, as bytes: frames `<kind><length>\n<payload>\n`. A frame ends
//! with a newline because some starters (srun) pass output on by whole lines.

use super::end::End;
pub use super::fields::Pair;
use super::fields::{Fields, Read};
use super::setup::Setup;

/// How an agent's first line begins.
const GREETING: &str = "circulant-agent";

/// No frame is longer; a header that says more is nonsense.
const FRAME_MAX: usize = 1 << 30;

/// Pairs of a fence that go down in one message: an agent passes them on while others are still on their way to it. Chosen: some 0.6 MB, which a link of
/// 10 Gbit/s carries in half a millisecond.
pub const FENCE_PIECE_PAIRS: usize = 4096;

/// Longest header: a letter, ten digits, a newline.
const HEADER_MAX: usize = 12;

/// Of the two streams that ranks print to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sink {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

impl Sink {
    pub(super) fn index(self) -> usize {
        match self {
            Self::Output => 0,
            Self::Error => 1,
        }
    }
}

/// From the launcher towards the ranks.
#[derive(Clone, Debug, PartialEq)]
pub enum Down {
    /// What the job is; the first message.
    Setup(Box<Setup>),
    /// Send this signal to all ranks that run.
    Signal(i32),
    /// A rank is gone, and how.
    Gone(usize, String),
    /// All ranks are in the barrier, and these were put before it; others follow.
    Values(Vec<Pair>),
    /// All ranks are in the barrier, and these were put before it: the last ones.
    Fence(Vec<Pair>),
    /// Standard input; nothing is its end.
    Input(Vec<u8>),
    /// So many bytes of a stream of a host were written.
    Credit(usize, Sink, usize),
    /// This stream is not read any more.
    Shut(Sink),
}

/// From the ranks towards the launcher.
#[derive(Clone, Debug, PartialEq)]
pub enum Up {
    /// A rank ended.
    Ended(Ended),
    /// A rank (its process id) asks to end the job with a code, for a reason.
    Abort(usize, u32, i32, String),
    /// What a rank said about the error that ended its world, as it said it.
    Report(usize, String),
    /// What a rank (its process id) says is no PMI-1.
    Broke(usize, u32, String),
    /// All ranks below are in the barrier and put these since the last one.
    Fence(Vec<Pair>),
    /// A rank printed.
    Output(usize, Sink, Vec<u8>),
    /// The last piece of standard input is taken.
    Taken,
    /// The agent on this host, and with it all below, is lost; whether it had come up.
    Lost(usize, bool, String),
    /// This host cannot run its ranks.
    Failed(usize, String),
    /// All ranks below ended, and all that they printed was sent.
    Done,
}

/// How a rank ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Which.
    pub rank: usize,
    /// Its process.
    pub pid: u32,
    /// Its exit code, or the signal (and true).
    pub how: (i32, bool),
    /// Whether it had called init and not finalize.
    pub inside: bool,
    /// Whether it had called finalize.
    pub finalized: bool,
}

impl Ended {
    pub(super) fn end(&self) -> End {
        match self.how {
            (signal, true) => End::Signal(signal),
            (code, false) => End::Code(code),
        }
    }
}

/// Something that is not a message of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonsense;

/// Bytes as they come, frames as they are complete.
#[derive(Debug, Default)]
pub struct Frames {
    buffer: Vec<u8>,
    taken: usize,
}

impl Frames {
    /// Takes in more bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.taken > 0 {
            self.buffer.drain(..self.taken);
            self.taken = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete frame: its kind and payload.
    ///
    /// # Errors
    /// When what arrived is no frame. There is no use in going on then.
    pub fn pop(&mut self) -> Result<Option<(u8, Vec<u8>)>, Nonsense> {
        let rest = &self.buffer[self.taken..];
        let Some(end) = rest.iter().take(HEADER_MAX).position(|&b| b == b'\n') else {
            let fine = rest.len() < HEADER_MAX && rest.first().is_none_or(u8::is_ascii_uppercase);
            return if fine { Ok(None) } else { Err(Nonsense) };
        };
        let (&kind, digits) = rest[..end].split_first().ok_or(Nonsense)?;
        let digits = std::str::from_utf8(digits).map_err(|_| Nonsense)?;
        let fine = kind.is_ascii_uppercase() && digits.bytes().all(|b| b.is_ascii_digit());
        let length = digits.parse().ok().filter(|&l: &usize| fine && l <= FRAME_MAX).ok_or(Nonsense)?;
        let Some(&last) = rest.get(end + 1 + length) else { return Ok(None) };
        if last != b'\n' {
            return Err(Nonsense);
        }
        let payload = rest[end + 1..end + 1 + length].to_vec();
        self.taken += end + 1 + length + 1;
        Ok(Some((kind, payload)))
    }

    /// Takes out what came so far without looking at it, up to the end of a line at most.
    pub(super) fn line(&mut self) -> Option<Vec<u8>> {
        let rest = &self.buffer[self.taken..];
        let at = rest.iter().position(|&b| b == b'\n')?;
        let line = rest[..at].to_vec();
        self.taken += at + 1;
        Some(line)
    }

    /// How much waits to be taken.
    pub(super) fn len(&self) -> usize {
        self.buffer.len() - self.taken
    }
}

/// An agent's first line: it repeats the job's secret. Frames follow.
pub fn greeting(secret: &[u8]) -> String {
    let hex: String = secret.iter().map(|b| format!("{b:02x}")).collect();
    format!("{GREETING} {hex}\n")
}

/// What a line is that comes before an agent's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Greeting {
    /// The right one.
    Right,
    /// An agent's, but not of this job.
    Wrong,
    /// What shells print at a login.
    Noise,
}

impl Greeting {
    /// Judges a line (without its newline).
    pub fn of(line: &[u8], secret: &[u8]) -> Self {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match line.strip_prefix(GREETING.as_bytes()) {
            Some(_) if line == greeting(secret).trim_end().as_bytes() => Self::Right,
            Some(_) => Self::Wrong,
            None => Self::Noise,
        }
    }
}

/// A frame.
fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(payload.len() + HEADER_MAX + 1);
    out.push(kind);
    out.extend_from_slice(format!("{}\n", payload.len()).as_bytes());
    out.extend_from_slice(payload);
    out.push(b'\n');
    out
}

fn sink(r: &mut Read<'_>) -> Option<Sink> {
    Some(if r.flag()? { Sink::Error } else { Sink::Output })
}

impl Down {
    /// The message as a frame.
    pub fn encode(&self) -> Vec<u8> {
        let f = Fields::default();
        let (kind, f) = match self {
            Self::Setup(setup) => (b'S', setup.write(f)),
            Self::Signal(signal) => (b'K', f.signed(*signal)),
            Self::Gone(rank, how) => (b'G', f.number(*rank).bytes(how.as_bytes())),
            Self::Values(pairs) => (b'V', f.pairs(pairs)),
            Self::Fence(pairs) => (b'F', f.pairs(pairs)),
            Self::Input(bytes) => (b'I', f.bytes(bytes)),
            Self::Shut(sink) => (b'U', f.number(sink.index())),
            Self::Credit(host, sink, len) => (b'C', f.number(*host).number(sink.index()).number(*len)),
        };
        frame(kind, &f.0)
    }

    /// The message of a frame; `None` when it is none of ours.
    pub fn decode(kind: u8, payload: &[u8]) -> Option<Self> {
        let mut r = Read(payload);
        let message = match kind {
            b'S' => Self::Setup(Box::new(Setup::read(&mut r)?)),
            b'K' => Self::Signal(r.signed()?),
            b'G' => Self::Gone(r.number()?, r.text()?),
            b'V' => Self::Values(r.pairs()?),
            b'F' => Self::Fence(r.pairs()?),
            b'I' => Self::Input(r.bytes()?.to_vec()),
            b'U' => Self::Shut(sink(&mut r)?),
            b'C' => Self::Credit(r.number()?, sink(&mut r)?, r.number()?),
            _ => return None,
        };
        r.end(message)
    }
}

impl Up {
    /// The message as a frame.
    pub fn encode(&self) -> Vec<u8> {
        let f = Fields::default();
        let (kind, f) = match self {
            Self::Ended(e) => {
                let f = f.number(e.rank).number(e.pid as usize).signed(e.how.0).number(e.how.1.into());
                (b'E', f.number(e.inside.into()).number(e.finalized.into()))
            }
            Self::Abort(rank, pid, code, why) => {
                (b'A', f.number(*rank).number(*pid as usize).signed(*code).bytes(why.as_bytes()))
            }
            Self::Broke(rank, pid, why) => {
                (b'B', f.number(*rank).number(*pid as usize).bytes(why.as_bytes()))
            }
            Self::Report(rank, line) => (b'R', f.number(*rank).bytes(line.as_bytes())),
            Self::Fence(pairs) => (b'F', f.pairs(pairs)),
            Self::Output(rank, sink, bytes) => (b'O', f.number(*rank).number(sink.index()).bytes(bytes)),
            Self::Taken => (b'T', f),
            Self::Lost(host, up, why) => (b'L', f.number(*host).number((*up).into()).bytes(why.as_bytes())),
            Self::Failed(host, why) => (b'X', f.number(*host).bytes(why.as_bytes())),
            Self::Done => (b'D', f),
        };
        frame(kind, &f.0)
    }

    /// The message of a frame; `None` when it is none of ours.
    pub fn decode(kind: u8, payload: &[u8]) -> Option<Self> {
        let mut r = Read(payload);
        let message = match kind {
            b'E' => Self::Ended(Ended {
                rank: r.number()?,
                pid: r.process()?,
                how: (r.signed()?, r.flag()?),
                inside: r.flag()?,
                finalized: r.flag()?,
            }),
            b'A' => Self::Abort(r.number()?, r.process()?, r.signed()?, r.text()?),
            b'B' => Self::Broke(r.number()?, r.process()?, r.text()?),
            b'R' => Self::Report(r.number()?, r.text()?),
            b'F' => Self::Fence(r.pairs()?),
            b'O' => Self::Output(r.number()?, sink(&mut r)?, r.bytes()?.to_vec()),
            b'T' => Self::Taken,
            b'L' => Self::Lost(r.number()?, r.flag()?, r.text()?),
            b'X' => Self::Failed(r.number()?, r.text()?),
            b'D' => Self::Done,
            _ => return None,
        };
        r.end(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn whole(bytes: &[u8]) -> (u8, Vec<u8>) {
        let mut frames = Frames::default();
        for part in bytes.chunks(3) {
            assert_eq!(frames.pop(), Ok(None));
            frames.push(part);
        }
        let frame = frames.pop().unwrap().unwrap();
        assert_eq!((frames.pop(), frames.len()), (Ok(None), 0));
        frame
    }

    #[test]
    fn greetings() {
        let line = greeting(b"\x01\xff");
        assert_eq!(line, "circulant-agent 01ff\n");
        assert_eq!(Greeting::of(b"circulant-agent 01ff", b"\x01\xff"), Greeting::Right);
        assert_eq!(Greeting::of(b"circulant-agent 01fe", b"\x01\xff"), Greeting::Wrong);
        assert_eq!(Greeting::of(b"Welcome", b"\x01\xff"), Greeting::Noise);
    }

    #[test]
    fn all_come_back() {
        let pairs = vec![(b"k".to_vec(), b"v\n\0".to_vec()), (Vec::new(), vec![7; 3000])];
        let ended = Ended { rank: 3, pid: 77, how: (-9, true), inside: true, finalized: false };
        for message in [
            Up::Ended(ended),
            Up::Abort(1, 2, -7, "no more".into()),
            Up::Report(1, "error".into()),
            Up::Broke(1, 2, "x".into()),
            Up::Fence(pairs.clone()),
            Up::Output(5, Sink::Error, b"line\n".to_vec()),
            Up::Taken,
            Up::Lost(4, true, "gone".into()),
            Up::Failed(4, String::new()),
            Up::Done,
        ] {
            let (kind, payload) = whole(&message.encode());
            assert_eq!(Up::decode(kind, &payload), Some(message));
            assert_eq!(Up::decode(kind, &[&payload[..], b"x"].concat()), None);
        }
        for message in [
            Down::Setup(Box::new(Setup::example())),
            Down::Signal(15),
            Down::Gone(3, "killed".into()),
            Down::Values(pairs.clone()),
            Down::Fence(pairs),
            Down::Input(Vec::new()),
            Down::Credit(2, Sink::Output, 4096),
            Down::Shut(Sink::Error),
        ] {
            let (kind, payload) = whole(&message.encode());
            assert_eq!(Down::decode(kind, &payload), Some(message));
        }
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in any::<u8>()) {
            let _ = (Up::decode(kind, &bytes), Down::decode(kind, &bytes));
            let mut frames = Frames::default();
            frames.push(&bytes);
            while let Ok(Some((kind, payload))) = frames.pop() {
                let _ = (Up::decode(kind, &payload), Down::decode(kind, &payload));
            }
        }

        /// Spoilt ones are refused or are others, never a panic.
        #[test]
        fn spoilt(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()) {
            let mut bytes = Down::Setup(Box::new(Setup::example())).encode();
            let at = at.index(bytes.len());
            if cut { bytes.truncate(at) } else { bytes[at] = byte }
            let mut frames = Frames::default();
            frames.push(&bytes);
            if let Ok(Some((kind, payload))) = frames.pop() {
                let _ = Down::decode(kind, &payload);
            }
        }
    }
}
