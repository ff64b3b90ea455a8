//! What travels beside the data: the notify word of a put, and the control messages.
//!
//! The word has 32 bits, all that verbs and EFA carry: the *receiver's* slot of the operation in the top
//! 8 (it is in the ready message, so a rank numbers its slots alone) and the counter in the low 24. Hence
//! the limits: 240 operations in flight per rank, 2^24 counters per operation, communicators without end.
//! Messages are fixed little-endian records; a record that does not parse is an error, never a panic.

use super::agreement::{Agreed, Step};
pub(super) use super::status::AGREE;
pub(crate) use super::status::{CallId, FINALIZE, Mark, Status};
use crate::buffer::Grant;
use crate::error::ErrorKind;
use crate::plan::{Place, Region};
use crate::transport::{LONG_MESSAGE_MAX, MESSAGE_MAX};

/// Operation slots are below this; the words above belong to start-up and measuring.
pub(crate) const SLOTS: usize = IN_FLIGHT as usize;
/// The same number. Unit tests are compiled with few, so that they reach them.
pub(super) const IN_FLIGHT: u32 = if cfg!(test) { 12 } else { 240 };
/// Word of the self-test puts at start-up (the low bits hold the sender's index, for the error text).
pub(crate) const WORD_TEST: u32 = 0xF0 << 24;
/// Word of the raw puts that measure the wire.
pub(crate) const WORD_RAW: u32 = 0xF1 << 24;
/// "No rank" and "no operation" in a message.
pub(crate) const NONE: u32 = u32::MAX;

/// The word that increments `counter` of the operation in `slot`.
pub(crate) fn word(slot: u8, counter: u32) -> u32 {
    u32::from(slot) << 24 | counter
}

/// The slot and the counter of a word.
pub(crate) fn split(word: u32) -> (u8, u32) {
    ((word >> 24) as u8, word & 0x00FF_FFFF)
}

/// The token of a put of op `index` of the operation in `slot` whose words begin at `base` (24 bits, as counters have).
pub(super) fn token(slot: u8, base: u32, index: u32) -> u64 {
    u64::from(word(slot, base).rotate_left(8)) << 32 | u64::from(index)
}

/// The slot and the base of a token.
pub(super) fn of_token(token: u64) -> (u8, u32) {
    split(((token >> 32) as u32).rotate_right(8))
}

/// The first byte of an eager message; the codes of [`Message`] are others.
const EAGER_CODE: u8 = 64;
/// Bytes before the data of an eager message.
pub(super) const EAGER_HEADER_BYTES: usize = 39;

/// The header of an eager message: which bytes of which call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EagerHeader {
    pub call: CallId,
    pub code: u8,
    pub hash: u64,
    pub counter: u32,
    /// In the receiver's memory.
    pub target: Place,
}

impl EagerHeader {
    /// Writes it as `from`'s: the first [`EAGER_HEADER_BYTES`] bytes of the message.
    pub(super) fn write(&self, from: u32, out: &mut [u8; LONG_MESSAGE_MAX]) {
        let mut w = Writer { out, at: 0 };
        w.u8(EAGER_CODE);
        w.u32(from);
        w.call(self.call);
        w.u8(self.code);
        w.u64(self.hash);
        w.u32(self.counter);
        w.u8(match self.target.region {
            Region::Land => 1,
            _ => 0,
        });
        w.u64(self.target.offset);
        debug_assert_eq!(w.at, EAGER_HEADER_BYTES);
    }

    /// Sender, head and data, if this is an eager message at all.
    pub(super) fn read(bytes: &[u8]) -> Option<(u32, Self, &[u8])> {
        let mut r = Reader(bytes);
        if r.u8()? != EAGER_CODE {
            return None;
        }
        let from = r.u32()?;
        let (call, code, hash, counter) = (r.call()?, r.u8()?, r.u64()?, r.u32()?);
        let region = match r.u8()? {
            0 => Region::Output,
            1 => Region::Land,
            _ => return None,
        };
        let target = Place::new(region, r.u64()?);
        Some((from, Self { call, code, hash, counter, target }, r.0))
    }
}

/// A hash of the arguments, for a pair of ranks of which one sends `bytes` bytes to the other (0 where all that
/// the ranks agree on is in the hash already).
pub(super) fn pair_hash(hash: u64, bytes: u64) -> u64 {
    hash ^ bytes.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// A hash with what goes to a peer and what comes from it, where only the two know that: what the sender of a notify expects.
pub(super) fn notify_hash(hash: u64, to: u64, from: u64) -> u64 {
    pair_hash(hash, to) ^ from.wrapping_mul(0xC2B2_AE3D_27D4_EB4F)
}

/// A control message. `from` is always the world rank of the direct sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// Start-up: where you may put your self-test, and what I am.
    Hello { test: Grant, pid: u32, host: u64, agreed: u64 },
    /// Ready to receive: put into my output and landing memory; `word` is that of counter 0 of my operation.
    Ready { call: CallId, word: u32, code: u8, hash: u64, output: Grant, land: Grant },
    /// As `Ready`, of a persistent operation: its addresses and keys were exchanged when it was bound.
    ReadyAgain { call: CallId, word: u32, code: u8, hash: u64 },
    /// An increment without data; may come before its receiver has entered.
    Notify { call: CallId, code: u8, hash: u64, counter: u32 },
    /// `bytes` of yours have arrived in this operation.
    Ack { call: CallId, bytes: u64 },
    /// The world has ended with an error: its culprit, the rank that reports it, and the text.
    /// The text may have a remedy after [`HELP`]. `ended`: the culprit's process is gone.
    Abort { origin: u32, culprit: u32, ended: bool, kind: u8, mark: Mark, round: u32, text: String },
    /// Tell all ranks your status.
    Query { origin: u32, round: u32 },
    /// The status of `origin`, in answer to query `round`.
    Status { origin: u32, round: u32, status: Status },
    /// Here is memory for raw puts.
    Raw { grant: Grant },
    /// I am leaving and will send nothing more.
    Bye,
    /// An unexpected eager message, as it is kept. Never sent like this.
    Eager { head: EagerHeader, data: Vec<u8> },
    /// I have no credit for eager messages: send me the ready message.
    ReadyRequest { call: CallId, code: u8, hash: u64 },
    /// So many eager messages of yours are consumed: their credit is yours again.
    Credit { messages: u32 },
    /// I wait for you in this call.
    Awaited { call: CallId, code: u8, hash: u64 },
    /// My call does not match yours: these are my arguments.
    Mismatch { call: CallId, code: u8, text: String },
    /// A rank is gone, and how it ended: calls on its communicators fail.
    Gone { rank: u32, text: String },
    /// A rank has revoked a communicator.
    Revoke { comm: u64, by: u32 },
    /// A step of the agreement of this number on a communicator.
    Agree { comm: u64, number: u32, step: Step },
}

/// World ranks that a step of an agreement lists, at most: those that are gone of one communicator.
pub(super) const MAX_GONE_RANKS: usize = (MESSAGE_MAX - 64) / 4;

/// Bytes of text in a message, at most: any error in full, and the arguments of a call. Chosen, below `MESSAGE_MAX`
/// (8064) with all that stands beside it.
pub(super) const MAX_TEXT_BYTES: usize = 6000;
/// Stands between an error's message and its remedy.
pub(crate) const HELP: char = '\u{1f}';

struct Writer<'a> {
    out: &'a mut [u8; LONG_MESSAGE_MAX],
    at: usize,
}

impl Writer<'_> {
    fn raw(&mut self, bytes: &[u8]) {
        self.out[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }
    fn u8(&mut self, v: u8) {
        self.raw(&[v]);
    }
    fn u32(&mut self, v: u32) {
        self.raw(&v.to_le_bytes());
    }
    fn u64(&mut self, v: u64) {
        self.raw(&v.to_le_bytes());
    }
    fn call(&mut self, c: CallId) {
        self.u64(c.comm);
        self.u32(c.sequence);
    }
    fn grant(&mut self, g: Grant) {
        self.u64(g.address);
        self.u64(g.key);
    }
    fn mark(&mut self, m: Mark) {
        self.u8(m.code);
        self.call(m.call);
    }
    fn ranks(&mut self, list: &[u32]) {
        list.iter().take(MAX_GONE_RANKS).for_each(|rank| self.u32(*rank));
    }
    fn agreed(&mut self, value: &Agreed) {
        self.u64(value.flags);
        self.u32(value.number);
        self.u32(value.proposer);
        self.ranks(&value.gone);
    }
    fn step(&mut self, step: &Step) {
        match step {
            Step::Vote { adopted, value } => {
                self.u8(1);
                self.u32(adopted.unwrap_or(NONE));
                self.agreed(value);
            }
            Step::Ask { gone } => {
                self.u8(2);
                self.ranks(gone);
            }
            Step::Propose(value) => {
                self.u8(3);
                self.agreed(value);
            }
            Step::Adopted => self.u8(4),
            Step::Decide(value) => {
                self.u8(5);
                self.agreed(value);
            }
            Step::Known => self.u8(6),
            Step::Forget => self.u8(7),
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }
    fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|b| b[0])
    }
    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }
    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
    fn call(&mut self) -> Option<CallId> {
        Some(CallId { comm: self.u64()?, sequence: self.u32()? })
    }
    fn grant(&mut self) -> Option<Grant> {
        Some(Grant { address: self.u64()?, key: self.u64()? })
    }
    fn mark(&mut self) -> Option<Mark> {
        Some(Mark { code: self.u8()?, call: self.call()? })
    }
    /// Up to the end.
    fn ranks(&mut self) -> Vec<u32> {
        std::iter::from_fn(|| self.u32()).collect()
    }
    fn agreed(&mut self) -> Option<Agreed> {
        let (flags, number, proposer) = (self.u64()?, self.u32()?, self.u32()?);
        Some(Agreed { flags, number, proposer, gone: self.ranks() })
    }
    fn step(&mut self) -> Option<Step> {
        Some(match self.u8()? {
            1 => {
                let adopted = Some(self.u32()?).filter(|rank| *rank != NONE);
                Step::Vote { adopted, value: self.agreed()? }
            }
            2 => Step::Ask { gone: self.ranks() },
            3 => Step::Propose(self.agreed()?),
            4 => Step::Adopted,
            5 => Step::Decide(self.agreed()?),
            6 => Step::Known,
            7 => Step::Forget,
            _ => return None,
        })
    }
    fn text(&mut self) -> String {
        String::from_utf8_lossy(std::mem::take(&mut self.0)).into_owned()
    }
}

impl Message {
    /// Writes the message as `from`'s; returns its length.
    pub(crate) fn encode(&self, from: u32, out: &mut [u8; LONG_MESSAGE_MAX]) -> usize {
        let mut w = Writer { out, at: 0 };
        w.u8(self.code());
        w.u32(from);
        match self {
            Self::Hello { test, pid, host, agreed } => {
                w.grant(*test);
                w.u32(*pid);
                w.u64(*host);
                w.u64(*agreed);
            }
            Self::Ready { call, word, code, hash, output, land } => {
                w.call(*call);
                w.u32(*word);
                w.u8(*code);
                w.u64(*hash);
                w.grant(*output);
                w.grant(*land);
            }
            Self::ReadyAgain { call, word, code, hash } => {
                w.call(*call);
                w.u32(*word);
                w.u8(*code);
                w.u64(*hash);
            }
            Self::Notify { call, code, hash, counter } => {
                w.call(*call);
                w.u8(*code);
                w.u64(*hash);
                w.u32(*counter);
            }
            Self::Ack { call, bytes } => {
                w.call(*call);
                w.u64(*bytes);
            }
            Self::Abort { origin, culprit, ended, kind, mark, round, text } => {
                w.u32(*origin);
                w.u32(*culprit);
                w.u8(u8::from(*ended));
                w.u8(*kind);
                w.mark(*mark);
                w.u32(*round);
                w.raw(clipped(text).as_bytes());
            }
            Self::Query { origin, round } => {
                w.u32(*origin);
                w.u32(*round);
            }
            Self::Status { origin, round, status } => {
                w.u32(*origin);
                w.u32(*round);
                w.mark(status.entered);
                w.u64(status.hash);
                w.mark(status.completed);
                w.mark(status.waits);
            }
            Self::Raw { grant } => w.grant(*grant),
            Self::ReadyRequest { call, code, hash } | Self::Awaited { call, code, hash } => {
                w.call(*call);
                w.u8(*code);
                w.u64(*hash);
            }
            Self::Credit { messages } => w.u32(*messages),
            Self::Mismatch { call, code, text } => {
                w.call(*call);
                w.u8(*code);
                w.raw(clipped(text).as_bytes());
            }
            Self::Gone { rank, text } => {
                w.u32(*rank);
                w.raw(clipped(text).as_bytes());
            }
            Self::Revoke { comm, by } => {
                w.u64(*comm);
                w.u32(*by);
            }
            Self::Agree { comm, number, step } => {
                w.u64(*comm);
                w.u32(*number);
                w.step(step);
            }
            Self::Bye | Self::Eager { .. } => {}
        }
        w.at
    }

    fn code(&self) -> u8 {
        match self {
            Self::Hello { .. } => 1,
            Self::Ready { .. } => 2,
            Self::Notify { .. } => 3,
            Self::Ack { .. } => 4,
            Self::Abort { .. } => 5,
            Self::Query { .. } => 6,
            Self::Status { .. } => 7,
            Self::Raw { .. } => 8,
            Self::Bye => 9,
            Self::ReadyAgain { .. } => 10,
            Self::ReadyRequest { .. } => 11,
            Self::Credit { .. } => 12,
            Self::Awaited { .. } => 13,
            Self::Mismatch { .. } => 14,
            Self::Gone { .. } => 15,
            Self::Revoke { .. } => 16,
            Self::Agree { .. } => 17,
            // A code that no receiver accepts.
            Self::Eager { .. } => 0,
        }
    }

    /// Reads a message and its sender; `None` when it is malformed.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(u32, Self)> {
        let mut r = Reader(bytes);
        let code = r.u8()?;
        let from = r.u32()?;
        let message = match code {
            1 => Self::Hello { test: r.grant()?, pid: r.u32()?, host: r.u64()?, agreed: r.u64()? },
            2 => Self::Ready {
                call: r.call()?,
                word: r.u32()?,
                code: r.u8()?,
                hash: r.u64()?,
                output: r.grant()?,
                land: r.grant()?,
            },
            3 => Self::Notify { call: r.call()?, code: r.u8()?, hash: r.u64()?, counter: r.u32()? },
            4 => Self::Ack { call: r.call()?, bytes: r.u64()? },
            5 => Self::Abort {
                origin: r.u32()?,
                culprit: r.u32()?,
                ended: r.u8()? != 0,
                kind: r.u8()?,
                mark: r.mark()?,
                round: r.u32()?,
                text: r.text(),
            },
            6 => Self::Query { origin: r.u32()?, round: r.u32()? },
            7 => Self::Status {
                origin: r.u32()?,
                round: r.u32()?,
                status: Status { entered: r.mark()?, hash: r.u64()?, completed: r.mark()?, waits: r.mark()? },
            },
            8 => Self::Raw { grant: r.grant()? },
            9 => Self::Bye,
            10 => Self::ReadyAgain { call: r.call()?, word: r.u32()?, code: r.u8()?, hash: r.u64()? },
            11 => Self::ReadyRequest { call: r.call()?, code: r.u8()?, hash: r.u64()? },
            12 => Self::Credit { messages: r.u32()? },
            13 => Self::Awaited { call: r.call()?, code: r.u8()?, hash: r.u64()? },
            14 => Self::Mismatch { call: r.call()?, code: r.u8()?, text: r.text() },
            15 => Self::Gone { rank: r.u32()?, text: r.text() },
            16 => Self::Revoke { comm: r.u64()?, by: r.u32()? },
            17 => Self::Agree { comm: r.u64()?, number: r.u32()?, step: r.step()? },
            _ => return None,
        };
        r.0.is_empty().then_some((from, message))
    }
}

/// A message that is decoded and encoded again is the same. (A text may be cut; bytes that are no text are replaced.)
#[cfg(any(fuzzing, test))]
pub fn fuzz_message(bytes: &[u8]) {
    let _ = EagerHeader::read(bytes);
    let Some((from, message)) = Message::decode(bytes) else { return };
    let mut out = [0; LONG_MESSAGE_MAX];
    let len = message.encode(from, &mut out);
    let again = Message::decode(&out[..len]);
    assert!(matches!(message, Message::Abort { .. }) || again == Some((from, message)));
}

fn clipped(text: &str) -> &str {
    let mut end = text.len().min(MAX_TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

const KINDS: [ErrorKind; 11] = [
    ErrorKind::Argument,
    ErrorKind::Mismatch,
    ErrorKind::Timeout,
    ErrorKind::PeerLost,
    ErrorKind::Aborted,
    ErrorKind::Transport,
    ErrorKind::Launch,
    ErrorKind::Config,
    ErrorKind::Library,
    ErrorKind::System,
    ErrorKind::Revoked,
];

/// An error kind as it travels.
pub(crate) fn kind_code(kind: ErrorKind) -> u8 {
    KINDS.iter().position(|k| *k == kind).and_then(|i| u8::try_from(i).ok()).unwrap_or(4)
}

/// The reverse of [`kind_code`]; anything unknown is "aborted".
pub(crate) fn kind_of(code: u8) -> ErrorKind {
    KINDS.get(usize::from(code)).copied().unwrap_or(ErrorKind::Aborted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn samples() -> Vec<Message> {
        let call = CallId { comm: 7 << 40, sequence: 17 };
        let g = Grant { address: 0xdead_beef_0123, key: 42 };
        let mark = Mark { code: 3, call };
        vec![
            Message::Hello { test: g, pid: 9, host: 11, agreed: 12 },
            Message::Ready { call, word: 5 << 24 | 7, code: 1, hash: 99, output: g, land: g },
            Message::ReadyAgain { call, word: 5 << 24 | 7, code: 1, hash: 99 },
            Message::Notify { call, code: 4, hash: 98, counter: 6 },
            Message::Ack { call, bytes: 1 << 40 },
            Message::Abort {
                origin: 1,
                culprit: NONE,
                ended: true,
                kind: 2,
                mark,
                round: 4,
                text: "grüße".repeat(1000),
            },
            Message::Query { origin: 3, round: 1 },
            Message::Status {
                origin: 3,
                round: 1,
                status: Status { entered: mark, hash: 7, completed: mark, waits: mark },
            },
            Message::Raw { grant: g },
            Message::Bye,
            Message::ReadyRequest { call, code: 4, hash: 98 },
            Message::Credit { messages: 6 },
            Message::Awaited { call, code: 4, hash: 98 },
            Message::Mismatch { call, code: 4, text: "length=3\n".repeat(500) },
            Message::Gone { rank: 6, text: "killed".to_owned() },
            Message::Revoke { comm: 7 << 40, by: 3 },
        ]
    }

    #[test]
    fn messages_come_back() {
        for m in samples() {
            let mut buffer = [0; LONG_MESSAGE_MAX];
            let n = m.encode(31, &mut buffer);
            let (from, back) = Message::decode(&buffer[..n]).unwrap();
            assert_eq!(from, 31);
            match (&m, &back) {
                (Message::Abort { text: a, .. }, Message::Abort { text: b, .. }) => {
                    assert!(a.starts_with(b.as_str()) && b.len() > MAX_TEXT_BYTES - 4);
                }
                _ => assert_eq!(m, back),
            }
            assert_eq!(
                n > 64,
                matches!(m, Message::Abort { .. } | Message::Mismatch { .. }),
                "hot messages are injected, with a tag (fabric/tags.rs) on all wires but ofi_rxm"
            );
            let text = matches!(m, Message::Abort { .. } | Message::Mismatch { .. } | Message::Gone { .. });
            assert!(Message::decode(&buffer[..n - 1]).is_none() || text);
        }
    }

    #[test]
    fn heads_come_back() {
        for region in [Region::Output, Region::Land] {
            let call = CallId { comm: 9 << 33, sequence: 8 };
            let target = Place::new(region, 1 << 40);
            let head = EagerHeader { call, code: 3, hash: 77, counter: 12, target };
            let mut buffer = [0; LONG_MESSAGE_MAX];
            head.write(5, &mut buffer);
            buffer[EAGER_HEADER_BYTES..EAGER_HEADER_BYTES + 3].copy_from_slice(b"abc");
            assert_eq!(EagerHeader::read(&buffer[..EAGER_HEADER_BYTES + 3]), Some((5, head, &b"abc"[..])));
            assert_eq!(EagerHeader::read(&buffer[..EAGER_HEADER_BYTES - 1]), None);
        }
    }

    #[test]
    fn words() {
        assert_eq!(split(word(239, 0xFF_FFFF)), (239, 0xFF_FFFF));
        assert!(word(239, 0xFF_FFFF) < WORD_TEST);
        assert_eq!(of_token(token(239, 0xFF_FFFE, u32::MAX)), (239, 0xFF_FFFE));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = (Message::decode(&bytes), EagerHeader::read(&bytes));
        }
    }
}
