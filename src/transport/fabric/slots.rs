//! The contexts of operations in flight: a fixed slab, since providers keep some memory of ours in each
//! until its completion (modes FI_CONTEXT and FI_CONTEXT2), and since nothing is allocated per operation.

use libfabric_sys as fi;
use std::ffi::c_void;
use std::ptr::NonNull;

/// What a slot's operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A posted receive buffer, for good.
    Receive,
    /// A message on its way out of our buffer.
    Message,
    /// A put.
    Put,
    /// A put of no bytes that shows whether a connection stands (`endpoint/probe.rs`).
    Probe,
}

/// Our part of a slot.
#[derive(Clone, Copy, Debug, Default)]
struct Note {
    token: u64,
    peer: u32,
    probe: bool,
}

/// All slots: first the receives, then the messages (these two have a buffer each), then the puts.
pub(super) struct Slots {
    /// The provider's part; only ever its address is used here, which completions bring back.
    contexts: NonNull<[fi::fi_context2]>,
    notes: Box<[Note]>,
    receives: usize,
    buffered: usize,
    free_messages: Vec<u32>,
    free_puts: Vec<u32>,
}

// SAFETY: the contexts are plain memory that this value owns; nothing in them belongs to a thread.
unsafe impl Send for Slots {}

impl Slots {
    pub(super) fn new(receives: usize, messages: usize, puts: usize) -> Self {
        let buffered = receives + messages;
        let all = buffered + puts;
        let contexts: Box<[fi::fi_context2]> =
            vec![fi::fi_context2 { internal: [std::ptr::null_mut(); 8] }; all].into();
        let range = |from: usize, to: usize| (from..to).rev().filter_map(|i| u32::try_from(i).ok()).collect();
        Self {
            contexts: NonNull::from(Box::leak(contexts)),
            notes: vec![Note::default(); all].into(),
            receives,
            buffered,
            free_messages: range(receives, buffered),
            free_puts: range(buffered, all),
        }
    }

    /// A free slot for a message (never for a receive, which keep theirs), or for a put or probe.
    pub(super) fn take(&mut self, kind: Kind, peer: u32, token: u64) -> Option<usize> {
        let i = match kind {
            Kind::Receive => return None,
            Kind::Message => self.free_messages.pop()?,
            Kind::Put | Kind::Probe => self.free_puts.pop()?,
        } as usize;
        self.notes[i] = Note { token, peer, probe: kind == Kind::Probe };
        Some(i)
    }

    /// The slot's operation is over, or never began.
    pub(super) fn give_back(&mut self, i: usize) {
        let Ok(index) = u32::try_from(i) else { return };
        match self.kind(i) {
            Kind::Receive => {}
            // The lists were made with room for all: these never allocate.
            Kind::Message => self.free_messages.push(index),
            Kind::Put | Kind::Probe => self.free_puts.push(index),
        }
    }

    /// No message and no put is under way.
    pub(super) fn idle(&self) -> bool {
        self.free_messages.len() + self.free_puts.len() == self.notes.len() - self.receives
    }

    pub(super) fn kind(&self, i: usize) -> Kind {
        match i {
            _ if i < self.receives => Kind::Receive,
            _ if i < self.buffered => Kind::Message,
            _ if self.notes[i].probe => Kind::Probe,
            _ => Kind::Put,
        }
    }

    pub(super) fn token(&self, i: usize) -> u64 {
        self.notes[i].token
    }

    pub(super) fn peer(&self, i: usize) -> u32 {
        self.notes[i].peer
    }

    /// What to hand to libfabric as the operation's context.
    pub(super) fn context(&self, i: usize) -> *mut c_void {
        assert!(i < self.notes.len());
        self.contexts.as_ptr().cast::<fi::fi_context2>().wrapping_add(i).cast()
    }

    /// The slot whose context this is; none for a pointer that is not one of ours.
    pub(super) fn of_context(&self, context: *mut c_void) -> Option<usize> {
        let offset = context.addr().checked_sub(self.contexts.as_ptr().addr())?;
        let i = offset / size_of::<fi::fi_context2>();
        (offset % size_of::<fi::fi_context2>() == 0 && i < self.notes.len()).then_some(i)
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // SAFETY: from Box::leak in `new`. The endpoint that drops this has closed (or it leaks this), so the
        // provider uses no context any more.
        drop(unsafe { Box::from_raw(self.contexts.as_ptr()) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_found_again_by_their_context() {
        let mut s = Slots::new(3, 2, 4);
        let puts: Vec<usize> = (0..4).map(|t| s.take(Kind::Put, 7, 100 + t).unwrap()).collect();
        assert_eq!(s.take(Kind::Put, 7, 0), None, "a fixed number");
        assert!(!s.idle());
        for (t, &i) in puts.iter().enumerate() {
            assert_eq!(s.of_context(s.context(i)), Some(i));
            assert_eq!((s.kind(i), s.token(i), s.peer(i)), (Kind::Put, 100 + t as u64, 7));
        }
        let message = s.take(Kind::Message, 1, 0).unwrap();
        assert_eq!((s.kind(message), s.kind(0)), (Kind::Message, Kind::Receive));
        s.give_back(puts[1]);
        assert_eq!(s.take(Kind::Probe, 8, 0), Some(puts[1]));
        assert_eq!((s.kind(puts[1]), s.peer(puts[1])), (Kind::Probe, 8));
        s.give_back(puts[1]);
        assert_eq!(s.take(Kind::Put, 8, 9), Some(puts[1]));
        assert_eq!(s.kind(puts[1]), Kind::Put);
        for wrong in
            [std::ptr::null_mut(), s.context(0).wrapping_byte_add(1), s.context(8).wrapping_byte_add(64)]
        {
            assert_eq!(s.of_context(wrong), None);
        }
    }
}
