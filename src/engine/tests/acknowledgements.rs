//! What receivers acknowledge, and when.

use super::*;
use crate::plan::bcast::chain::Bcast;

/// Blocks of a broadcast by two ranks, each as long as a portion.
const BLOCKS: u32 = 16;
const PORTION_BYTES: u64 = 8192;

fn flow(window: u64) -> Flow {
    Flow { window, acknowledged: 2 * PORTION_BYTES, bandwidth_bound: u64::MAX, order_timeout: Duration::ZERO }
}

/// Messages of the receiver of a broadcast behind its ready message, if all bytes come before it looks. `known`: all ranks know how many these are.
fn acknowledgements(window: u64, known: bool) -> u64 {
    let bytes = u64::from(BLOCKS) * PORTION_BYTES;
    let chain = Bcast::new(2, 0, bytes, BLOCKS).unwrap();
    let meta = Meta { bytes: if known { bytes } else { 0 }, ..meta(0) };
    let enters = |engine| enters_as(engine, &chain, meta);
    let mut world: Vec<_> = engines_of(2, flow(window), Borrow::Direct).into_iter().map(enters).collect();
    assert!(!goes_on(&mut world[1]), "nothing has come");
    let ready = world[1].0.stats().messages;
    goes_on(&mut world[0]);
    assert_eq!(world[0].0.stats().puts, u64::from(BLOCKS));
    let mut left = 100;
    while !goes_on(&mut world[1]) {
        left -= 1;
        assert!(left > 0, "it does not end");
    }
    world[1].0.stats().messages - ready
}

/// Sixteen portions come before their receiver looks.
#[test]
fn portions_that_come_together_are_acknowledged_together() {
    assert_eq!(acknowledgements(1 << 20, false), 1);
}

/// No sender ever waits for an acknowledgement: all bytes may be unacknowledged.
#[test]
fn what_fits_into_the_window_is_not_acknowledged() {
    let bytes = u64::from(BLOCKS) * PORTION_BYTES;
    assert_eq!(acknowledgements(bytes, true), 0);
    assert_eq!(acknowledgements(bytes - 1, true), 1);
}

/// Rank 0 puts some bytes to rank 1, which puts them back.
#[derive(Debug)]
struct Echo;

impl Plan for Echo {
    fn algorithm(&self) -> &'static str {
        "echo"
    }
    fn size(&self) -> u32 {
        2
    }
    fn rounds(&self) -> u32 {
        2
    }
    fn counters(&self, _: u32) -> u32 {
        1
    }
    fn sizes(&self, _: u32) -> Sizes {
        Sizes { output: PORTION_BYTES, ..Sizes::default() }
    }
    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        let (place, other) = (Place::new(Region::Output, 0), 1 - rank);
        let wait = if rank == 0 { Wait::NONE } else { Wait::once(0) };
        let put = Step::put(rank, other, place, place, PORTION_BYTES, wait, 0);
        let expect = Step::expect(other, other, place, place, PORTION_BYTES, 0);
        let [first, second] = if rank == 0 { [put, expect] } else { [expect, put] };
        Box::new([first, second].into_iter())
    }
}

/// What comes, in its order.
#[derive(Debug, Default)]
struct Came(Vec<&'static str>);

impl Sink for Came {
    fn arrival(&mut self, _word: u32) {
        self.0.push("data");
    }
    fn done(&mut self, _token: u64) {}
    fn message(&mut self, bytes: &[u8]) {
        let is_ack = matches!(Message::decode(bytes), Some((_, Message::Ack { .. })));
        self.0.push(if is_ack { "acknowledgement" } else { "message" });
    }
    fn lost(&mut self, _peer: Option<u32>, why: &str) {
        panic!("{why}");
    }
}

/// Behind it on the same link it would come when all the data has, and its receiver may wait for it.
#[test]
fn an_acknowledgement_goes_before_data() {
    let mut world: Vec<_> = engines_of(2, flow(1 << 20), Borrow::Direct)
        .into_iter()
        .map(|engine| enters(engine, &Echo))
        .collect();
    assert!(!goes_on(&mut world[1]), "nothing has come");
    goes_on(&mut world[0]);
    assert_eq!(world[0].0.stats().puts, 1);
    goes_on(&mut world[1]);
    let mut came = Came::default();
    world[0].0.transport().unwrap().poll(&mut came).unwrap();
    assert_eq!(came.0, ["acknowledgement", "data"]);
}
