//! The side channel: beside PMI, `circulant run` gives each rank a socket on which it says, in a line
//! `gone <rank> <how>`, which ranks ended.

use super::wire::Lines;
use super::{Gone, fd};
use std::collections::VecDeque;
use std::io::Read;
use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;

/// Names the side channel: `<descriptor>:<name of the key-value space>`. The second part tells a rank's
/// own channel from one inherited through another launcher.
pub(crate) const VARIABLE: &str = "CIRCULANT_SIDE_FD";

/// A rank's end of the side channel.
#[derive(Debug)]
pub(super) struct Side {
    stream: Option<UnixStream>,
    lines: Lines,
    gone: VecDeque<Gone>,
}

impl Side {
    /// The channel that belongs to the key-value space `kvsname`, if there is one.
    pub(super) fn of(value: &str, kvsname: &str) -> Option<Self> {
        let (number, name) = value.split_once(':')?;
        if name != kvsname {
            return None;
        }
        let stream = fd::adopt_socket(number.parse::<RawFd>().ok()?).ok()?;
        stream.set_nonblocking(true).ok()?;
        Some(Self { stream: Some(stream), lines: Lines::default(), gone: VecDeque::new() })
    }

    /// Whether some rank is known to be gone that [`Side::take`] did not give yet. Never waits.
    pub(super) fn peek(&mut self) -> Option<&Gone> {
        self.read();
        self.gone.front()
    }

    /// The next rank that is gone. Never waits.
    pub(super) fn take(&mut self) -> Option<Gone> {
        self.read();
        self.gone.pop_front()
    }

    fn read(&mut self) {
        let mut buffer = [0; 1024];
        while let Some(stream) = &mut self.stream {
            match stream.read(&mut buffer) {
                Ok(len) if len > 0 => self.lines.push(&buffer[..len]),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => break,
                _ => self.stream = None,
            }
        }
        while let Ok(Some(line)) = self.lines.pop() {
            self.gone.extend(parse(&line));
        }
    }
}

/// The line that says that `rank` is gone.
#[cfg_attr(not(feature = "cli"), allow(dead_code))]
pub(crate) fn line(rank: usize, how: &str) -> String {
    format!("gone {rank} {}\n", how.replace('\n', " "))
}

fn parse(line: &[u8]) -> Option<Gone> {
    let (rank, how) = std::str::from_utf8(line).ok()?.strip_prefix("gone ")?.split_once(' ')?;
    Some(Gone { rank: rank.parse().ok()?, how: how.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    #[test]
    fn says_who_is_gone_and_never_waits() {
        let (theirs, mut ours) = UnixStream::pair().unwrap();
        let value = format!("{}:job", theirs.as_raw_fd());
        assert!(Side::of(&value, "other").is_none());
        let mut side = Side::of(&value, "job").unwrap();
        drop(theirs);
        assert!(side.take().is_none());
        ours.write_all(b"gone 3 killed by sig").unwrap();
        assert!(side.take().is_none());
        ours.write_all(b"nal 9\nnonsense\ngone x y\n").unwrap();
        let gone = Gone { rank: 3, how: "killed by signal 9".into() };
        assert_eq!(side.peek(), Some(&gone));
        assert_eq!(side.take(), Some(gone));
        ours.write_all(line(1, "exited\nbadly").as_bytes()).unwrap();
        drop(ours);
        assert_eq!(side.take(), Some(Gone { rank: 1, how: "exited badly".into() }));
        assert!(side.take().is_none() && side.stream.is_none());
    }

    proptest! {
        #[test]
        fn any_line(raw in proptest::collection::vec(any::<u8>(), 0..60), text in "gone [ -~]{0,20}") {
            let _ = (parse(&raw), parse(text.as_bytes()));
        }
    }
}
