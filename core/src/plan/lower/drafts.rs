//! Work to be posted, before it is brought in order; and what of it a gather list saves: copies that bring pieces together for a put.

use super::program::{OpKind, Segment};
use crate::plan::{NO_COUNTER, Place, Region};
use std::collections::BTreeMap;
use std::ops::Range;

/// An op with its segments and waits still at its side.
pub(super) struct Draft {
    pub(super) kind: OpKind,
    pub(super) peer: u32,
    pub(super) segments: Vec<Segment>,
    pub(super) target: Place,
    pub(super) round: u32,
    pub(super) bump: u32,
    pub(super) waits: Vec<(u32, u32)>,
}

/// Has puts gather up to `most` pieces from where they are, in place of copies that pack them: only the sender has to know of that, as the
/// put is the same to its target. Where there are more pieces, the fewest bytes are packed. What cannot be told from here to stay as it is
/// until the put is done is packed: sources in the output, and in operations that combine all but the input. Returns whether anything was saved.
pub(super) fn gather(drafts: &mut Vec<Draft>, most: usize) -> bool {
    let packs = |draft: &Draft| {
        draft.kind == OpKind::Copy && draft.target.region == Region::Work && draft.bump != NO_COUNTER
    };
    if most < 2 || !drafts.iter().any(packs) {
        return false;
    }
    let combines = drafts.iter().any(|draft| matches!(draft.kind, OpKind::Reduce(_)));
    let lasts = |region| match region {
        Region::Input => true,
        Region::Work | Region::Land => !combines,
        Region::Output => false,
    };
    let mut packed: BTreeMap<u32, Packed> = BTreeMap::new();
    for (i, draft) in drafts.iter().enumerate().filter(|(_, draft)| packs(draft)) {
        packed.entry(draft.bump).or_default().copies.push(i);
    }
    for (i, draft) in drafts.iter().enumerate() {
        for (counter, count) in &draft.waits {
            if let Some(packed) = packed.get_mut(counter) {
                packed.readers.push(i);
                packed.whole &= draft.kind == OpKind::Put && *count as usize == packed.copies.len();
            }
        }
    }
    let mut saved = vec![false; drafts.len()];
    for (counter, packed) in packed {
        packed.gather(drafts, counter, most, lasts, &mut saved);
    }
    let mut saved = saved.into_iter();
    let before = drafts.len();
    drafts.retain(|_| saved.next() == Some(false));
    drafts.len() < before
}

/// Copies that bump one counter, and what waits for it.
struct Packed {
    copies: Vec<usize>,
    readers: Vec<usize>,
    /// Only puts wait for it, each for all of the copies.
    whole: bool,
}

impl Default for Packed {
    fn default() -> Self {
        Self { copies: Vec::new(), readers: Vec::new(), whole: true }
    }
}

impl Packed {
    fn gather(
        mut self,
        drafts: &mut [Draft],
        counter: u32,
        most: usize,
        lasts: impl Fn(Region) -> bool,
        saved: &mut [bool],
    ) {
        self.copies.sort_by_key(|copy| drafts[*copy].target.offset);
        let one = |copy: &usize| matches!(drafts[*copy].segments[..], [Segment { place, .. }] if lasts(place.region));
        let end = |copy: usize| drafts[copy].target.offset + length(&drafts[copy].segments);
        let contiguous = self.copies.windows(2).all(|two| end(two[0]) == drafts[two[1]].target.offset);
        if !self.whole || self.readers.is_empty() || !contiguous || !self.copies.iter().all(one) {
            return;
        }
        let pieces: Vec<Piece> = self.copies.iter().map(|copy| Piece::of(&drafts[*copy])).collect();
        let kept = if self.readers.len() == 1 { over(&pieces, most) } else { 0..0 };
        let lists: Option<Vec<_>> = self
            .readers
            .iter()
            .map(|reader| {
                let list = gathered(&drafts[*reader].segments, &pieces, &kept)?;
                (list.len() <= most).then_some(list)
            })
            .collect();
        let Some(lists) = lists else { return };
        let gone =
            || self.copies.iter().enumerate().filter(|(i, _)| !kept.contains(i)).map(|(_, copy)| *copy);
        let waits: Vec<_> = gone().flat_map(|copy| drafts[copy].waits.iter().copied()).collect();
        gone().for_each(|copy| saved[copy] = true);
        for (reader, list) in self.readers.iter().zip(lists) {
            let reader = &mut drafts[*reader];
            reader.segments = list;
            reader.waits.retain(|(waited, _)| *waited != counter);
            if !kept.is_empty() {
                // Fewer than the copies, which are numbered by 32 bits.
                reader.waits.push((counter, u32::try_from(kept.len()).unwrap_or(u32::MAX)));
            }
            reader.waits.extend(&waits);
        }
    }
}

fn length(segments: &[Segment]) -> u64 {
    segments.iter().map(|segment| segment.len).sum()
}

/// What a copy packs: where it is, and where it goes.
struct Piece {
    source: Place,
    packed: Range<u64>,
}

impl Piece {
    fn of(copy: &Draft) -> Self {
        let at = copy.target.offset;
        Self { source: copy.segments[0].place, packed: at..at + length(&copy.segments) }
    }
}

/// Of more than `most` pieces the neighbours that make one of them, of the fewest bytes.
fn over(pieces: &[Piece], most: usize) -> Range<usize> {
    let Some(more) = pieces.len().checked_sub(most).filter(|more| *more > 0) else { return 0..0 };
    let bytes = |first: usize| pieces[first + more].packed.end - pieces[first].packed.start;
    let first = (0..pieces.len() - more).min_by_key(|first| bytes(*first)).unwrap_or(0);
    first..first + more + 1
}

/// The list of a put whose segments were packed of these pieces, of which `kept` are still; `None` if a segment is of them and of other
/// memory.
fn gathered(segments: &[Segment], pieces: &[Piece], kept: &Range<usize>) -> Option<Vec<Segment>> {
    let whole = pieces.first()?.packed.start..pieces.last()?.packed.end;
    let mut list = Vec::with_capacity(pieces.len());
    for segment in segments {
        let range = segment.place.offset..segment.place.offset + segment.len;
        if segment.place.region != Region::Work || range.end <= whole.start || whole.end <= range.start {
            list.push(*segment);
            continue;
        }
        if range.start < whole.start || whole.end < range.end {
            return None;
        }
        let mut last_kept = false;
        for (i, Piece { source, packed }) in pieces.iter().enumerate() {
            let (start, end) = (packed.start.max(range.start), packed.end.min(range.end));
            if start >= end {
                continue;
            }
            let is_kept = kept.contains(&i);
            match list.last_mut() {
                Some(Segment { len, .. }) if is_kept && last_kept => *len += end - start,
                _ => {
                    let place = match is_kept {
                        true => Place::new(Region::Work, start),
                        false => Place::new(source.region, source.offset + (start - packed.start)),
                    };
                    list.push(Segment { place, len: end - start });
                }
            }
            last_kept = is_kept;
        }
    }
    Some(list)
}

/// The bytes of [`Region::Work`] that these ops use.
pub(super) fn work(drafts: &[Draft]) -> u64 {
    let end = |place: Place, len: u64| if place.region == Region::Work { place.offset + len } else { 0 };
    let used = |draft: &Draft| {
        let sources = draft.segments.iter().map(|segment| end(segment.place, segment.len));
        let target = if draft.kind.is_local() { end(draft.target, length(&draft.segments)) } else { 0 };
        sources.fold(target, u64::max)
    };
    drafts.iter().map(used).max().unwrap_or(0)
}
