//! What is kept of ranks and communicators that are gone.

use super::*;
use crate::engine::Group;
use std::sync::Weak;

struct Both;

impl Group for Both {
    fn next_call(&self) -> u32 {
        0
    }
    fn world_ranks(&self) -> Vec<u32> {
        vec![0, 1]
    }
    fn has_member(&self, rank: u32) -> bool {
        rank < 2
    }
}

/// That a communicator has ended is known as long as the program has it, and a while longer.
#[test]
fn communicators_that_have_ended_are_forgotten_after_the_program_has() {
    let mut engine = engines(2, 1 << 16, Borrow::Direct).remove(0);
    engine.go_on_without_the_gone();
    let group: Arc<dyn Group> = Arc::new(Both);
    for comm in 1..100 {
        engine.register(comm, if comm == 7 { Arc::downgrade(&group) } else { Weak::<Both>::new() });
        engine.core.revoked(comm, 1);
    }
    let begin = engine.now();
    let mut known_after = |seconds| {
        engine.core.forget_ended(begin + Duration::from_secs(seconds));
        (1..100).filter(|comm| engine.usable(*comm).is_err() && engine.is_revoked(*comm)).count()
    };
    // It is looked at now and then, and times count from the first look.
    assert_eq!([0, 11, 300, 500].map(&mut known_after), [99; 4]);
    assert_eq!([900, 911, 922].map(&mut known_after).last(), Some(&1));
    drop(group);
    assert_eq!([1000, 1011, 1022].map(&mut known_after), [1; 3]);
    assert_eq!([1800, 1811, 1822].map(&mut known_after).last(), Some(&0));
}

/// A word with a number below those of the operation in its slot is of one that has ended half way there.
#[test]
fn late_words_are_told_by_their_number() {
    let mut engine = engines(2, 1 << 16, Borrow::Direct).remove(0);
    engine.go_on_without_the_gone();
    engine.core.survivors.bases = vec![40; SLOTS];
    for counter in 0..40 {
        engine.core.arrival(word(3, counter));
        assert!(engine.core.broken.is_none(), "counter {counter}");
    }
    engine.core.arrival(word(3, 40));
    assert!(engine.core.broken.take().is_some(), "it is of no operation");
}
