//! The proof of plans that reduce: no two conflicting steps without an order, and the right symbols in
//! the end.
//!
//! If of any two events that touch a byte, one of them writing, one is an ancestor of the other in the
//! graph of waits, then all orders that respect the waits compute the same; so one is run.

use super::events::Events;
use super::program::keeps_in_step;
use super::{Report, Violation, violated};
use crate::plan::lower::Program;
use crate::plan::{Place, Plan, Region, Side, Sizes};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// What a range of a rank's output must be in the end: the fold of a range of ranks' contributions.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    offset: u64,
    len: u64,
    /// Which bytes of the contributions.
    from: u64,
    /// The ranks, from the first to before the second.
    ranks: (u32, u32),
}

/// The goal of an operation that reduces: what every rank contributes and what it gets.
#[derive(Clone, Debug)]
pub struct Fold {
    /// By rank: where its contribution lies.
    contributions: Vec<Region>,
    results: Vec<Option<Outcome>>,
    /// Bytes of every contribution.
    bytes: u64,
    element: u64,
    /// Contributions must enter in the order of ranks.
    ordered: bool,
}

impl Fold {
    fn new(
        p: u32,
        bytes: u64,
        element: u64,
        in_place: bool,
        result: impl Fn(u32) -> Option<Outcome>,
    ) -> Self {
        let region = if in_place { Region::Output } else { Region::Input };
        Self {
            contributions: vec![region; p as usize],
            results: (0..p).map(result).collect(),
            bytes,
            element,
            ordered: false,
        }
    }

    /// Asks for the order of ranks, too (operators that do not commute).
    #[must_use]
    pub fn in_order(mut self) -> Self {
        self.ordered = true;
        self
    }

    /// A reduction to `root`; in place concerns the root only.
    pub fn reduce(p: u32, root: u32, bytes: u64, element: u64, in_place: bool) -> Self {
        let result = |r| (r == root).then_some(Outcome { offset: 0, len: bytes, from: 0, ranks: (0, p) });
        let mut fold = Self::new(p, bytes, element, false, result);
        if in_place {
            fold.contributions[root as usize] = Region::Output;
        }
        fold
    }

    /// A reduction whose result all ranks get.
    pub fn allreduce(p: u32, bytes: u64, element: u64, in_place: bool) -> Self {
        let result = |_| Some(Outcome { offset: 0, len: bytes, from: 0, ranks: (0, p) });
        Self::new(p, bytes, element, in_place, result)
    }

    /// A reduction of which rank r gets `counts[r]` bytes, at the start of its output.
    pub fn reduce_scatter(counts: &[u64], element: u64) -> Self {
        let p = u32::try_from(counts.len()).unwrap_or(0);
        let start = |r: u32| counts[..r as usize].iter().sum::<u64>();
        let result = |r| Some(Outcome { offset: 0, len: counts[r as usize], from: start(r), ranks: (0, p) });
        Self::new(p, start(p), element, false, result)
    }

    /// What rank r gets is the fold of ranks 0 to r.
    pub fn scan(p: u32, bytes: u64, element: u64) -> Self {
        let result = |r| Some(Outcome { offset: 0, len: bytes, from: 0, ranks: (0, r + 1) });
        Self::new(p, bytes, element, false, result).in_order()
    }

    /// What rank r > 0 gets is the fold of ranks 0 to r−1; rank 0 gets nothing.
    pub fn exscan(p: u32, bytes: u64, element: u64) -> Self {
        let result = |r| (r > 0).then_some(Outcome { offset: 0, len: bytes, from: 0, ranks: (0, r) });
        Self::new(p, bytes, element, false, result).in_order()
    }
}

/// Proves that `plan` reaches `goal`, the same under any order of deliveries.
///
/// # Errors
/// The first law that it breaks.
pub fn prove_fold(plan: &dyn Plan, goal: &Fold) -> Result<Report, Violation> {
    prove(&Events::of_plan(plan)?, goal, 0)
}

/// The same of the lowered programs of all ranks, run in the random order of `seed`.
///
/// # Errors
/// The first law that they break.
pub fn check_fold(
    plan: &dyn Plan,
    programs: &[Program],
    goal: &Fold,
    seed: u64,
) -> Result<Report, Violation> {
    (0..).zip(programs).try_for_each(|(rank, program)| keeps_in_step(rank, program))?;
    prove(&Events::of_programs(plan, programs)?, goal, seed)
}

/// Whose contributions were combined: runs of ranks, (first, last + 1).
#[derive(Debug, PartialEq, Eq)]
struct Word(Vec<(u32, u32)>);

impl Word {
    /// Left, then right; without an order, sorted. `None` if a contribution would be in it twice.
    fn combine(left: &Self, right: &Self, ordered: bool) -> Option<Self> {
        let mut all: Vec<(u32, u32)> = left.0.iter().chain(&right.0).copied().collect();
        if !ordered {
            all.sort_unstable();
        }
        let mut out: Vec<(u32, u32)> = Vec::with_capacity(all.len());
        for run in all {
            match out.last_mut() {
                Some(last) if last.1 == run.0 => last.1 = run.1,
                Some(last) if !ordered && run.0 < last.1 => return None,
                _ => out.push(run),
            }
        }
        Some(Self(out))
    }
}

/// A range of bytes with one history.
#[derive(Clone, Debug)]
struct Cell {
    len: u64,
    /// The elements' bytes, by their offset in the contributions.
    from: u64,
    word: Rc<Word>,
    writer: Option<u32>,
    /// What has read it since.
    readers: Vec<u32>,
}

/// The memory of one rank.
#[derive(Debug, Default)]
struct Memory {
    cells: BTreeMap<(Region, u64), Cell>,
}

impl Memory {
    /// Makes a cell begin at `place`, if one spans it.
    fn cut(&mut self, place: Place) {
        let Some((&(region, begin), cell)) = self.cells.range_mut(..(place.region, place.offset)).next_back()
        else {
            return;
        };
        if region != place.region || begin + cell.len <= place.offset {
            return;
        }
        let head = place.offset - begin;
        let mut tail = cell.clone();
        (tail.len, tail.from, cell.len) = (cell.len - head, cell.from + head, head);
        self.cells.insert((region, place.offset), tail);
    }

    /// The keys of the cells in a range, which is cut out.
    fn keys(&mut self, place: Place, len: u64) -> Vec<u64> {
        self.cut(place);
        self.cut(Place::new(place.region, place.offset + len));
        let range = (place.region, place.offset)..(place.region, place.offset + len);
        self.cells.range(range).map(|(key, _)| key.1).collect()
    }
}

struct Proof<'a> {
    events: &'a Events,
    goal: &'a Fold,
    memory: Vec<Memory>,
    /// By event: when it happens, and by which question it was last met.
    at: Vec<u32>,
    met: Vec<u32>,
    question: u32,
}

fn prove(events: &Events, goal: &Fold, seed: u64) -> Result<Report, Violation> {
    let order = events.order(seed)?;
    let mut proof = Proof {
        events,
        goal,
        memory: (0..events.sizes.len()).map(|_| Memory::default()).collect(),
        at: vec![0; order.len()],
        met: vec![0; order.len()],
        question: 0,
    };
    for (at, &event) in (0..).zip(&order) {
        proof.at[event as usize] = at;
    }
    if goal.bytes > 0 {
        for (rank, (memory, &region)) in (0..).zip(proof.memory.iter_mut().zip(&goal.contributions)) {
            let word = Rc::new(Word(vec![(rank, rank + 1)]));
            let cell = Cell { len: goal.bytes, from: 0, word, writer: None, readers: Vec::new() };
            memory.cells.insert((region, 0), cell);
        }
    }
    for event in order {
        proof.happen(event)?;
    }
    proof.finish()?;
    Ok(Report {
        steps: events.list.len() as u64,
        puts: events.puts,
        bytes: events.bytes,
        most: events.came.iter().copied().max().unwrap_or(0),
        rounds: events.rounds,
    })
}

fn size(sizes: &Sizes, region: Region) -> u64 {
    match region {
        Region::Input => sizes.input,
        Region::Output => sizes.output,
        Region::Work => sizes.work,
        Region::Land => sizes.land,
    }
}

impl Proof<'_> {
    /// Whether `later` waits for each event of `earlier`, by whatever chain.
    fn ordered(&mut self, rank: u32, later: u32, mut earlier: Vec<u32>) -> Result<(), Violation> {
        // Neighbouring cells mostly have the same readers and writer: one walk back finds all of them.
        earlier.sort_unstable_by_key(|&event| self.at[event as usize]);
        earlier.dedup();
        earlier.retain(|&event| event != later);
        self.question += 1;
        // Nearest first: mostly the wait is direct, or goes through a join or two.
        let mut open = VecDeque::from([later]);
        while let Some(&first) = earlier.first() {
            let Some(event) = open.pop_front() else {
                let (a, b) = (&self.events.list[first as usize], &self.events.list[later as usize]);
                return violated(format!("at rank {rank} nothing orders {a:?} before {b:?}"));
            };
            for &before in &self.events.list[event as usize].after {
                let (met, at) = (&mut self.met[before as usize], self.at[before as usize]);
                if *met == self.question || at < self.at[first as usize] {
                    continue;
                }
                *met = self.question;
                open.push_back(before);
                let found = earlier.binary_search_by_key(&at, |&event| self.at[event as usize]);
                if let Ok(found) = found {
                    earlier.remove(found);
                    if earlier.is_empty() {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads a range: its cells' bytes (length, which elements) and words.
    fn read(
        &mut self,
        event: u32,
        rank: u32,
        place: Place,
        len: u64,
    ) -> Result<Vec<(u64, u64, Rc<Word>)>, Violation> {
        let (mut out, mut writers, mut at) = (Vec::new(), Vec::new(), place.offset);
        if place
            .offset
            .checked_add(len)
            .is_none_or(|e| e > size(&self.events.sizes[rank as usize], place.region))
        {
            return violated(format!("rank {rank} reads {len} bytes at {place:?}, out of bounds"));
        }
        for key in self.memory[rank as usize].keys(place, len) {
            let Some(cell) = self.memory[rank as usize].cells.get_mut(&(place.region, key)) else { continue };
            if key == at {
                at += cell.len;
            }
            if place.region != Region::Input && cell.readers.last() != Some(&event) {
                cell.readers.push(event);
            }
            out.push((cell.len, cell.from, Rc::clone(&cell.word)));
            writers.extend(cell.writer);
        }
        self.ordered(rank, event, writers)?;
        if at != place.offset + len {
            let event = &self.events.list[event as usize];
            return violated(format!("rank {rank}: at {place:?} + {len} is nothing to read: {event:?}"));
        }
        Ok(out)
    }

    /// Writes a range with these cells.
    fn write(
        &mut self,
        event: u32,
        rank: u32,
        place: Place,
        cells: Vec<(u64, u64, Rc<Word>)>,
    ) -> Result<(), Violation> {
        let len: u64 = cells.iter().map(|c| c.0).sum();
        let sizes = &self.events.sizes[rank as usize];
        let end = place.offset.checked_add(len).filter(|&end| end <= size(sizes, place.region));
        if end.is_none() || place.region == Region::Input {
            return violated(format!("rank {rank} is written {len} bytes at {place:?}"));
        }
        let mut earlier = Vec::new();
        for key in self.memory[rank as usize].keys(place, len) {
            let Some(cell) = self.memory[rank as usize].cells.remove(&(place.region, key)) else { continue };
            earlier.extend(cell.readers.into_iter().chain(cell.writer));
        }
        self.ordered(rank, event, earlier)?;
        let mut at = place.offset;
        for (len, from, word) in cells {
            let cell = Cell { len, from, word, writer: Some(event), readers: Vec::new() };
            self.memory[rank as usize].cells.insert((place.region, at), cell);
            at += len;
        }
        Ok(())
    }

    fn happen(&mut self, number: u32) -> Result<(), Violation> {
        let events = self.events;
        let event = &events.list[number as usize];
        let mut cells = Vec::new();
        for &(place, len) in &event.source {
            cells.extend(self.read(number, event.rank, place, len)?);
        }
        if cells.is_empty() {
            return Ok(());
        }
        if let Some(side) = event.reduce {
            let len = cells.iter().map(|c| c.0).sum();
            let source = event.source[0].0;
            let apart =
                source.region != event.target.region || source.offset.abs_diff(event.target.offset) >= len;
            if !apart {
                return violated(format!("a range is combined into itself: {event:?}"));
            }
            let target = self.read(number, event.to, event.target, len)?;
            cells = self.combine(side, cells, target)?;
        }
        self.write(number, event.to, event.target, cells)
    }

    fn combine(
        &self,
        side: Side,
        source: Vec<(u64, u64, Rc<Word>)>,
        target: Vec<(u64, u64, Rc<Word>)>,
    ) -> Result<Vec<(u64, u64, Rc<Word>)>, Violation> {
        let mut out = Vec::new();
        let element = self.goal.element.max(1);
        // Where the elements so far end.
        let mut at = 0;
        let (mut source, mut target) = (source.into_iter(), target.into_iter());
        let (mut s, mut t) = (source.next(), target.next());
        while let (Some(a), Some(b)) = (&mut s, &mut t) {
            let len = a.0.min(b.0);
            // Cells may end within an element (where puts were split), but not runs of elements.
            let whole = a.1 == at || at.is_multiple_of(element) && a.1.is_multiple_of(element);
            if a.1 != b.1 || !whole {
                return violated(format!("bytes {} are combined with bytes {}, {len} of them", a.1, b.1));
            }
            at = a.1 + len;
            let (left, right) = match side {
                Side::SourceLeft => (&a.2, &b.2),
                Side::SourceRight => (&b.2, &a.2),
            };
            let Some(word) = Word::combine(left, right, self.goal.ordered) else {
                return violated(format!("{left:?} with {right:?} has a contribution twice"));
            };
            out.push((len, a.1, Rc::new(word)));
            for x in [&mut *a, &mut *b] {
                x.0 -= len;
                x.1 += len;
            }
            if a.0 == 0 {
                s = source.next();
            }
            if b_is_empty(&t) {
                t = target.next();
            }
        }
        if !at.is_multiple_of(element) {
            return violated(format!("a combination ends within an element, at byte {at}"));
        }
        Ok(out)
    }

    fn finish(&mut self) -> Result<(), Violation> {
        for (rank, result) in (0..).zip(&self.goal.results) {
            let Some(result) = result else { continue };
            let memory: &mut Memory = &mut self.memory[rank as usize];
            let mut at = 0;
            for key in memory.keys(Place::new(Region::Output, result.offset), result.len) {
                let Some(cell) = memory.cells.get(&(Region::Output, key)) else { continue };
                let right = key == result.offset + at && cell.from == result.from + at;
                if !right || cell.word.0 != [result.ranks] {
                    return violated(format!("rank {rank}'s output at {key} is {cell:?}, not {result:?}"));
                }
                at += cell.len;
            }
            if at != result.len {
                return violated(format!("rank {rank}'s output ends after {at} of {} bytes", result.len));
            }
        }
        Ok(())
    }
}

fn b_is_empty(cell: &Option<(u64, u64, Rc<Word>)>) -> bool {
    cell.as_ref().is_some_and(|c| c.0 == 0)
}
