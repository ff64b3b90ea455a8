//! How two queue pairs are connected, by datagrams that may be lost, doubled and overtake each other.
//!
//! Each end makes its queue pair and says its number: the one that begins by a *request*, the other by the *reply*. An end that knows
//! the other's number can receive, and can be sent to as soon as the other knows that: by the reply, by *ready* after
//! it, or by anything that came over the queue pair. Both may begin at the same time, as every end has one queue pair for a
//! peer, and each message says all there is to say. What is not answered is sent again.

use std::time::{Duration, Instant};

/// When a message that was not answered is sent again for the first time. Chosen: some hundred times what a datagram
/// takes; `a_lost_ready_is_made_up_for_by_data_or_by_the_next_reply` shows what being lost does.
const FIRST_WAIT: Duration = Duration::from_millis(20);
/// The longest time between two: the wait doubles, as a peer that does not answer may be busy elsewhere. Chosen: five
/// doublings.
const LONGEST_WAIT: Duration = Duration::from_millis(640);

/// What a message says beside the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Its sender can not receive yet, or does not know whether we can.
    Request = 1,
    /// Its sender can receive, and does not know whether we can.
    Reply = 2,
    /// Its sender can receive, and knows that we can.
    Ready = 3,
}

/// One end of a connection: its queue pair's number, and the number of the first packet that it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) queue_pair: u32,
    pub(super) packet: u32,
}

/// What follows from a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Then {
    /// Connect our queue pair to this end.
    pub(super) connect: Option<End>,
    /// Send this.
    pub(super) answer: Option<Kind>,
}

/// The handshake of one peer, as this end sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handshake {
    pub(super) ours: End,
    theirs: Option<End>,
    /// The peer can receive.
    ready: bool,
    /// When to send again.
    due: Instant,
    wait: Duration,
}

impl Handshake {
    /// Of a queue pair just made: nothing was sent or received.
    pub(super) fn new(ours: End, now: Instant) -> Self {
        Self { ours, theirs: None, ready: false, due: now, wait: FIRST_WAIT }
    }

    /// Puts may be posted.
    pub(super) fn ready(&self) -> bool {
        self.ready
    }

    /// A message came that names their `end`.
    pub(super) fn received(&mut self, kind: Kind, end: End) -> Then {
        let connect = match self.theirs {
            None => {
                self.theirs = Some(end);
                Some(end)
            }
            Some(known) if known == end => None,
            // Not the end that we are connected to.
            Some(_) => return Then::default(),
        };
        let answer = match kind {
            Kind::Request => Some(Kind::Reply),
            Kind::Reply => Some(Kind::Ready),
            Kind::Ready => None,
        };
        self.ready |= kind != Kind::Request;
        Then { connect, answer }
    }

    /// Something came over the queue pair itself.
    pub(super) fn heard(&mut self) {
        self.ready = true;
    }

    /// What to send now, if it is time.
    pub(super) fn due(&mut self, now: Instant) -> Option<Kind> {
        if self.ready || now < self.due {
            return None;
        }
        self.due = now + self.wait;
        self.wait = (self.wait * 2).min(LONGEST_WAIT);
        Some(if self.theirs.is_some() { Kind::Reply } else { Kind::Request })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ENDS: [End; 2] = [End { queue_pair: 17, packet: 1 }, End { queue_pair: 23, packet: 2 }];

    /// Two ends and what is on its way to each.
    struct Pair {
        ends: [Option<Handshake>; 2],
        connected: [Option<End>; 2],
        mail: [Vec<Kind>; 2],
        now: Instant,
    }

    impl Pair {
        fn new() -> Self {
            let (ends, connected, mail) = ([None; 2], [None; 2], [Vec::new(), Vec::new()]);
            Self { ends, connected, mail, now: Instant::now() }
        }

        fn end(&mut self, at: usize) -> &mut Handshake {
            let now = self.now;
            self.ends[at].get_or_insert_with(|| Handshake::new(ENDS[at], now))
        }

        /// Delivers the message at `index`, and keeps it if it is `doubled`.
        fn deliver(&mut self, to: usize, index: usize, doubled: bool) {
            let kind = self.mail[to][index];
            if !doubled {
                self.mail[to].remove(index);
            }
            let then = self.end(to).received(kind, ENDS[1 - to]);
            if let Some(end) = then.connect {
                assert_eq!(self.connected[to].replace(end), None, "connected once");
            }
            self.mail[1 - to].extend(then.answer);
            self.holds();
        }

        fn tick(&mut self, at: usize) {
            let now = self.now;
            let kind = self.ends[at].as_mut().and_then(|e| e.due(now));
            self.mail[1 - at].extend(kind);
        }

        fn ready(&self, at: usize) -> bool {
            self.ends[at].is_some_and(|e| e.ready())
        }

        /// An end that may send is connected, and so is its peer.
        fn holds(&self) {
            for at in 0..2 {
                assert!(!self.ready(at) || self.connected.iter().all(Option::is_some));
                assert!(self.connected[at].is_none_or(|end| end == ENDS[1 - at]));
            }
        }
    }

    #[test]
    fn one_begins_and_three_messages_do() {
        let mut p = Pair::new();
        p.end(0);
        p.tick(0);
        for to in [1, 0, 1] {
            assert_eq!(p.mail[to].len(), 1);
            p.deliver(to, 0, false);
        }
        assert!(p.ready(0) && p.ready(1) && p.mail.iter().all(Vec::is_empty));
        p.now += LONGEST_WAIT;
        p.tick(0);
        p.tick(1);
        assert!(p.mail.iter().all(Vec::is_empty), "what is ready sends nothing again");
    }

    #[test]
    fn a_lost_ready_is_made_up_for_by_data_or_by_the_next_reply() {
        let mut p = Pair::new();
        p.end(0);
        p.tick(0);
        p.deliver(1, 0, false);
        p.deliver(0, 0, false);
        p.mail[1].clear();
        assert!(p.ready(0) && !p.ready(1));
        let mut heard = p.ends[1].unwrap();
        heard.heard();
        assert!(heard.ready());
        p.now += FIRST_WAIT;
        p.tick(1);
        p.deliver(0, 0, false);
        p.deliver(1, 0, false);
        assert!(p.ready(1));
    }

    #[test]
    fn another_end_than_the_one_connected_to_changes_nothing() {
        let mut h = Handshake::new(ENDS[0], Instant::now());
        h.received(Kind::Request, ENDS[1]);
        assert_eq!(h.received(Kind::Ready, End { queue_pair: 99, packet: 2 }), Then::default());
        assert!(!h.ready());
    }

    proptest! {
        /// Whatever is lost, doubled and overtaken, and whichever end begins: in the end both are ready, over one pair.
        #[test]
        fn both_ends_become_ready(begin in 1usize..4, events in prop::collection::vec((0usize..2, 0u8..4, 0usize..8), 0..60)) {
            let mut p = Pair::new();
            for at in 0..2 {
                if begin & 1 << at != 0 {
                    p.end(at);
                    p.tick(at);
                }
            }
            for (at, what, which) in events {
                p.now += FIRST_WAIT;
                p.tick(at);
                let mail = p.mail[at].len();
                if mail > 0 {
                    match what {
                        0 => { p.mail[at].remove(which % mail); }
                        1 => p.deliver(at, which % mail, true),
                        _ => p.deliver(at, which % mail, false),
                    }
                }
            }
            for _ in 0..4 {
                p.now += LONGEST_WAIT;
                for at in 0..2 {
                    p.tick(at);
                    while !p.mail[at].is_empty() {
                        p.deliver(at, 0, false);
                    }
                }
            }
            prop_assert!(p.ready(0) && p.ready(1));
        }
    }
}
