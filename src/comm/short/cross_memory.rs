//! Cross-memory attach between two ranks: what lies in memory that is not shared is posted by its address, and the other rank has the kernel copy it (process_vm_readv).
//!
//! That is one copy in place of two, page by page and with a system call. Which takes less depends on the length, and on whether the owner has written the bytes since they
//! were read last: then the reader fetches each line from the owner's caches in either way. So it is tried: of each kind and length of call one rank times both ways now and
//! then, and says by a bit in shared memory which one it wants. The time is that from when both ranks are in the call until the rank has all bytes.

use crate::memory::Trial;
use crate::transport::Lent;
use crate::transport::call_slots::{CallSlots, MAX_POST_BYTES, Place};
use rustix::time::{ClockId, clock_gettime};

/// Bytes of a post from which on it may be posted by its address. Chosen: shorter allgathers took 1.1 to 1.6 times as long so.
pub(super) const MIN_BYTES: usize = MAX_POST_BYTES;
/// Calls that are timed before a trial. Chosen: few, but more than the first two calls, which find nothing in the caches.
const TIMED_CALLS: u32 = 4;
/// Calls of a trial, of which the first does not count. Chosen: few.
const TRIAL_CALLS: u32 = 3;
/// Calls until a trial begins again where the other rank's memory is shared, so that nothing can be tried. Chosen: a look at the clock takes 4 in 100 of such a call.
const SHARED_REST: u32 = 64;
/// Calls between the first trial and the second. Chosen: by then the caches are as they will be.
const FIRST_REST: u32 = 16;
/// Calls that are to be timed, one after the other, until none is for a while where none can be, as the other rank posts otherwise than this one wants. Chosen: few, but more than one, as it may see that late.
const MAX_MISSES: u32 = 8;
/// The most calls between two trials. Chosen: trials of a way that takes twice as long add 3 in 1000 then.
const MAX_REST: u32 = 1024;
/// Lengths that are told apart, by their powers of two. Chosen: up to 256 MiB, and as many as the words have bits for.
const LENGTHS: usize = 15;
/// Kinds of calls by lengths. A rank has a bit for each in both words of what it wants: long posts are to be posted by address, and are to tell when their rank has entered the call.
const CHOICES: usize = Kind::ALL.len() * LENGTHS;
/// In the first word: the rank can read the other's memory.
const IS_ABLE: u64 = 1 << 63;
const _: () = assert!(CHOICES <= 63);

/// The kinds of calls of two ranks that are tried apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One rank reads them: bcast, scatter.
    ToOne,
    /// Both read as many: allgather, alltoall.
    ToBoth,
    /// Both read what they fold, a half or all of it.
    Allreduce,
    /// Both read and fold a part.
    ReduceScatter,
}

impl Kind {
    const ALL: [Self; 4] = [Self::ToOne, Self::ToBoth, Self::Allreduce, Self::ReduceScatter];

    /// Bytes from which on such a call goes by address until there is time for a trial. Chosen: longer ones took less so where nothing writes the buffers (allgathers 0.6 to 0.7
    /// times as long, allreduces 0.6 to 0.9), and no more where something does (0.9 to 1.0, 0.55 to 0.9).
    const fn least_by_address(self) -> usize {
        match self {
            Self::ToOne | Self::ReduceScatter => usize::MAX,
            Self::ToBoth => 8 * MIN_BYTES,
            Self::Allreduce => 64 * MIN_BYTES,
        }
    }
}

/// One kind and length of call.
#[derive(Debug)]
struct Choice {
    by_address: bool,
    trial: Trial,
    /// Calls, one after the other, that were to be timed and were not.
    misses: u32,
}

/// The choices of a rank, by kind and length.
#[derive(Debug)]
pub(super) struct Choices([Choice; CHOICES]);

impl Choices {
    /// For a communicator of two ranks with a core each, of which this one can read the memory of the other, or not.
    pub(super) fn new(slots: &CallSlots, is_able: bool) -> Option<Self> {
        if slots.size() != 2 || !slots.is_apart() {
            return None;
        }
        slots.want([if is_able { IS_ABLE } else { 0 }, 0]);
        Some(Self(std::array::from_fn(|index| {
            Choice::new(Kind::ALL[index / LENGTHS], MIN_BYTES << (index % LENGTHS))
        })))
    }
}

impl Choice {
    /// Of calls of `len` bytes, or up to twice as many.
    fn new(kind: Kind, len: usize) -> Self {
        let mut trial = Trial::new(TIMED_CALLS, TRIAL_CALLS);
        let by_address = len >= kind.least_by_address();
        if by_address {
            trial.put_off(TIMED_CALLS);
        }
        Self { by_address, trial, misses: 0 }
    }

    /// Whether the other rank is to post the next call by address, and whether the call is to be timed.
    fn next(&mut self) -> [bool; 2] {
        let timed = self.trial.next();
        [self.by_address != self.trial.is_on(), timed]
    }

    /// A call that was to be timed was not as wanted.
    fn missed(&mut self) {
        self.misses += 1;
        if self.misses == MAX_MISSES {
            self.misses = 0;
            self.trial.put_off(SHARED_REST);
        }
    }

    fn timed(&mut self, nanoseconds: u64) {
        self.misses = 0;
        match self.trial.timed(nanoseconds) {
            None => {}
            Some(true) => {
                self.by_address = !self.by_address;
                *self.trial.rest() = FIRST_REST;
            }
            Some(false) => {
                let rest = self.trial.rest();
                *rest = (2 * *rest).clamp(FIRST_REST, MAX_REST);
            }
        }
    }
}

/// What one call does about it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attach {
    /// Of its kind and length.
    index: usize,
    by_address: bool,
    timed: Timed,
}

/// Whether this rank times a call.
#[derive(Clone, Copy, Debug)]
enum Timed {
    Not,
    /// It does, and has entered at this time.
    Entered(u64),
    /// Both ranks were in it at this time.
    Began(u64),
}

/// Nanoseconds of the clock that all processes of a node have.
#[allow(clippy::cast_sign_loss, reason = "that clock never shows a negative time")]
fn now() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

impl Choices {
    /// What a call of this kind does in which the rank `measuring` measures. It reads `len` bytes; the other rank reads no more.
    pub(super) fn attach(
        &mut self,
        slots: &mut CallSlots,
        (measuring, kind): (usize, Kind),
        len: usize,
    ) -> Option<Attach> {
        let length = (len / MIN_BYTES).checked_ilog2()? as usize;
        let index = kind as usize * LENGTHS + length.min(LENGTHS - 1);
        let wanted = [0, 1].map(|member| slots.wanted(member));
        if wanted[0][0] & wanted[1][0] & IS_ABLE == 0 {
            return None;
        }
        let [by_address, timed] = if measuring == slots.rank() {
            let next = self.0[index].next();
            let word = |i: usize| wanted[measuring][i] & !(1 << index) | u64::from(next[i]) << index;
            slots.want([0, 1].map(word));
            next
        } else {
            wanted[measuring].map(|word| word >> index & 1 != 0)
        };
        let entered = if timed { now() } else { 0 };
        slots.enter(entered);
        let timed = if timed && measuring == slots.rank() { Timed::Entered(entered) } else { Timed::Not };
        Some(Attach { index, by_address, timed })
    }

    /// The rank `other` has posted in call `number`. The call is timed, from when both ranks were in it, if it posted as this rank wants.
    pub(super) fn began(&mut self, slots: &CallSlots, (other, number): (usize, u64), attach: &mut Attach) {
        let Timed::Entered(entered) = attach.timed else { return };
        let choice = &mut self.0[attach.index];
        let is_as_wanted = match slots.place(other, number) {
            Place::Area(_) => !attach.by_address,
            Place::Lent(lent) if lent.is_unmapped() => attach.by_address,
            Place::Lent(_) => {
                choice.trial.put_off(SHARED_REST);
                attach.timed = Timed::Not;
                return;
            }
        };
        let theirs = slots.entered(other, number);
        attach.timed = if is_as_wanted && theirs > 0 {
            Timed::Began(entered.max(theirs))
        } else {
            choice.missed();
            Timed::Not
        };
    }

    /// All bytes of a call have come.
    pub(super) fn ended(&mut self, attach: Attach) {
        if let Timed::Began(began) = attach.timed {
            self.0[attach.index].timed(now().saturating_sub(began));
        }
    }
}

impl Attach {
    /// What to post in place of these bytes, if they are to be posted by address.
    pub(super) fn lent(self, bytes: &[u8]) -> Option<Lent> {
        (self.by_address && bytes.len() >= MIN_BYTES).then(|| Lent::unmapped(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls by address, and others, where they take so long.
    fn calls(choice: &mut Choice, (by_address, posted): (u64, u64), count: u32) -> (u32, u32) {
        let mut so = (0, 0);
        for _ in 0..count {
            let [is_by_address, timed] = choice.next();
            if is_by_address {
                so.0 += 1
            } else {
                so.1 += 1
            }
            if timed {
                choice.timed(if is_by_address { by_address } else { posted });
            }
        }
        so
    }

    #[test]
    fn the_faster_way_is_found_soon_and_again_when_it_changes() {
        let mut choice = Choice::new(Kind::ToOne, MIN_BYTES);
        let first = calls(&mut choice, (600, 1000), TIMED_CALLS + TRIAL_CALLS);
        assert_eq!((first, choice.by_address), ((TRIAL_CALLS, TIMED_CALLS), true));
        assert!(Choice::new(Kind::ToBoth, 8 * MIN_BYTES).by_address);
        let most = |calls: u32| calls / (MAX_REST / TRIAL_CALLS);
        for (costs, by_address) in
            [((1000, 600), false), ((950, 1000), false), ((600, 1000), true), ((1000, 950), true)]
        {
            calls(&mut choice, costs, 2 * MAX_REST);
            assert_eq!(choice.by_address, by_address, "{costs:?}");
            let (a, b) = calls(&mut choice, costs, 50 * MAX_REST);
            assert!(
                if by_address { b } else { a } <= most(50 * MAX_REST),
                "{costs:?}: {a} by address, {b} not"
            );
        }
    }

    #[test]
    fn what_cannot_be_timed_is_left_alone_for_a_while() {
        let mut choice = Choice::new(Kind::ToOne, MIN_BYTES);
        let timed = |choice: &mut Choice| (0..SHARED_REST).filter(|_| choice.next()[1]).count();
        assert!(choice.next()[1]);
        (0..MAX_MISSES - 1).for_each(|_| choice.missed());
        assert!(choice.next()[1], "so many calls in turn may be seen late");
        choice.missed();
        assert_eq!((timed(&mut choice), timed(&mut choice)), (0, SHARED_REST as usize));
    }
}
