//! Agreement of the living members of a communicator on one value, also when more of them die meanwhile: the state of one
//! member, which reads no clock and sends nothing itself.
//!
//! The lowest living member coordinates: it collects a *vote* of each other living member, *proposes* a value, which each
//! *adopts* and acknowledges, and tells the *decision* once all have. When the coordinator dies the next one begins anew, and
//! takes the adopted value of the highest coordinator where a vote has one. So it is uniform consensus with a detector of
//! failures that is right in the end and never wrong (a rank that is taken for gone is cut off), as the hierarchical algorithm of
//! Guerraoui and Rodrigues (Introduction to Reliable Distributed Programming, 2006, 5.4). Four messages per member and
//! coordinator, and two that are not waited for, by which all learn that all know the decision: then nothing of it is kept. Herault, Bouteiller, Bosilca et al. (Practical Scalable Consensus for Pseudo-Synchronous Distributed Systems,
//! SC 2015) do it along a tree, for larger jobs.
//!
//! *Why there is one decision.* A value is decided when all members that live then have adopted it from coordinator c. A later
//! coordinator has votes of living members only, each of which has adopted it from c, or what a coordinator after c proposed: the same
//! value by induction, as each takes that of the highest.

use std::collections::{BTreeMap, BTreeSet};

/// What is agreed on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Agreed {
    /// The flags that all members have set whose votes were counted.
    pub(crate) flags: u64,
    /// A number that its proposer has never given before.
    pub(crate) number: u32,
    /// The coordinator that proposed it, a world rank.
    pub(crate) proposer: u32,
    /// World ranks that are gone, in order.
    pub(crate) gone: Vec<u32>,
}

/// What members tell each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// To the coordinator: what the sender would agree on; or what it has adopted, and of which coordinator.
    Vote { adopted: Option<u32>, value: Agreed },
    /// By a coordinator that has no vote of the receiver: it may have learned the decision of another.
    Ask { gone: Vec<u32> },
    /// By the coordinator.
    Propose(Agreed),
    /// The receiver's proposal is adopted.
    Adopted,
    /// What is agreed on.
    Decide(Agreed),
    /// The receiver's decision has come.
    Known,
    /// By the coordinator: all that live know the decision, so none asks for it any more.
    Forget,
}

/// One agreement at one member.
#[derive(Debug, Default)]
pub(super) struct Agreement {
    me: u32,
    /// World ranks, in order; none until this rank has begun.
    members: Vec<u32>,
    mine: Agreed,
    adopted: Option<(u32, Agreed)>,
    /// Of others, if this rank coordinates, now or later.
    votes: BTreeMap<u32, (Option<u32>, Agreed)>,
    /// Others that have adopted our proposal, once there is one.
    proposed: Option<BTreeSet<u32>>,
    voted_for: Option<u32>,
    asked: bool,
    decided: Option<Agreed>,
    /// The call has ended that began it here.
    taken: bool,
    /// Those that this rank has told the decision, and those of them that do not know it yet.
    told: Option<(Vec<u32>, BTreeSet<u32>)>,
    /// The rank that has told this one the decision, until it is gone: then others may not have heard.
    told_by: Option<u32>,
    /// All that live know the decision.
    known_to_all: bool,
}

/// Messages, with their receivers.
pub(super) type Steps = Vec<(u32, Step)>;

impl Agreement {
    /// This rank takes part from now on.
    pub(super) fn begin(&mut self, me: u32, mut members: Vec<u32>, (flags, number): (u64, u32)) {
        members.sort_unstable();
        (self.me, self.members) = (me, members);
        self.mine = Agreed { flags, number, proposer: me, gone: Vec::new() };
    }

    pub(super) fn has_begun(&self) -> bool {
        !self.members.is_empty()
    }

    /// The decision, once it is known.
    pub(super) fn decided(&self) -> Option<&Agreed> {
        self.decided.as_ref()
    }

    /// The call that began it has ended: all but the decision, and the ranks that may need it, is needed no longer.
    pub(super) fn take(&mut self) {
        let Self { me, members, mine, decided, told, told_by, known_to_all, .. } = std::mem::take(self);
        *self =
            Self { me, members, mine, decided, told, told_by, known_to_all, taken: true, ..Self::default() };
    }

    /// Nothing of it is needed any more.
    pub(super) fn is_over(&self) -> bool {
        self.taken && self.known_to_all
    }

    /// The lowest living member.
    pub(super) fn coordinator(&self, gone: &BTreeSet<u32>) -> Option<u32> {
        self.members.iter().copied().find(|rank| !gone.contains(rank))
    }

    /// The members that this one waits for.
    pub(super) fn awaited(&self, gone: &BTreeSet<u32>) -> Vec<u32> {
        if !self.has_begun() || self.decided.is_some() {
            return Vec::new();
        }
        match (self.coordinator(gone), &self.proposed) {
            (Some(coordinator), _) if coordinator != self.me => vec![coordinator],
            (_, Some(acks)) => self.others(gone).filter(|rank| !acks.contains(rank)).collect(),
            (_, None) => self.others(gone).filter(|rank| !self.votes.contains_key(rank)).collect(),
        }
    }

    /// The members that are gone.
    fn missing<'a>(&'a self, gone: &'a BTreeSet<u32>) -> impl Iterator<Item = u32> + 'a {
        gone.iter().copied().filter(|rank| self.members.binary_search(rank).is_ok())
    }

    /// The other living members.
    fn others<'a>(&'a self, gone: &'a BTreeSet<u32>) -> impl Iterator<Item = u32> + 'a {
        self.members.iter().copied().filter(|rank| *rank != self.me && !gone.contains(rank))
    }

    /// Takes what `from` says.
    pub(super) fn receive(&mut self, from: u32, step: Step, gone: &BTreeSet<u32>) -> Steps {
        if let (Some(decided), Step::Vote { .. } | Step::Ask { .. } | Step::Propose(_)) =
            (&self.decided, &step)
        {
            return vec![(from, Step::Decide(decided.clone()))];
        }
        let mut answers = Vec::new();
        match step {
            Step::Vote { adopted, value } => _ = self.votes.insert(from, (adopted, value)),
            Step::Ask { .. } => self.voted_for = self.voted_for.filter(|rank| *rank != from),
            Step::Propose(value) if self.has_begun() => {
                // One of a lower coordinator is late: it is gone.
                if self.adopted.as_ref().is_none_or(|(round, _)| *round <= from) {
                    self.adopted = Some((from, value));
                    answers.push((from, Step::Adopted));
                }
            }
            Step::Propose(_) => {}
            Step::Adopted => {
                if let Some(acks) = &mut self.proposed {
                    acks.insert(from);
                }
            }
            Step::Decide(value) if self.decided.is_none() => {
                // They wait for us.
                let voters = self.votes.keys().filter(|rank| **rank != from && !gone.contains(rank));
                answers.extend(voters.map(|rank| (*rank, Step::Decide(value.clone()))));
                (self.decided, self.told_by) = (Some(value), Some(from));
                answers.push((from, Step::Known));
            }
            Step::Decide(_) => answers.push((from, Step::Known)),
            Step::Known => {
                if let Some((_, unaware)) = &mut self.told {
                    unaware.remove(&from);
                }
            }
            Step::Forget => self.known_to_all |= self.decided.is_some(),
        }
        answers.extend(self.go_on(gone));
        answers
    }

    /// Does what can be done, after something came or a rank is gone.
    pub(super) fn go_on(&mut self, gone: &BTreeSet<u32>) -> Steps {
        if let Some(decided) = &self.decided {
            let lost = self.told_by.is_some_and(|rank| gone.contains(&rank)) && !self.known_to_all;
            if !lost {
                return self.forget(gone);
            }
            // Those that it has not told wait for the next coordinator, which may have left by now.
            let steps = self.others(gone).map(|rank| (rank, Step::Decide(decided.clone()))).collect();
            self.told_by = None;
            return steps;
        }
        let Some(coordinator) = self.coordinator(gone) else { return Vec::new() };
        if coordinator != self.me {
            return self.vote(coordinator, gone);
        }
        let mut steps = Vec::new();
        if self.proposed.is_none() {
            if !self.all_of(gone, &self.votes, |votes, rank| votes.contains_key(&rank), self.votes.len()) {
                return self.ask(gone);
            }
            let value = self.choose(gone);
            steps.extend(self.others(gone).map(|rank| (rank, Step::Propose(value.clone()))));
            self.adopted = Some((self.me, value));
            self.proposed = Some(BTreeSet::new());
        }
        let (Some(acks), Some((_, value))) = (&self.proposed, &self.adopted) else { return steps };
        if self.all_of(gone, acks, |acks, rank| acks.contains(&rank), acks.len()) {
            let value = value.clone();
            let others: Vec<u32> = self.others(gone).collect();
            steps.extend(others.iter().map(|rank| (*rank, Step::Decide(value.clone()))));
            self.told = Some((others.clone(), others.into_iter().collect()));
            self.decided = Some(value);
            steps.extend(self.forget(gone));
        }
        steps
    }

    /// Tells all that all know the decision, once they do.
    fn forget(&mut self, gone: &BTreeSet<u32>) -> Steps {
        let Some((told, unaware)) = &mut self.told else { return Vec::new() };
        unaware.retain(|rank| !gone.contains(rank));
        if !unaware.is_empty() {
            return Vec::new();
        }
        let all = std::mem::take(told).into_iter().filter(|rank| !gone.contains(rank));
        let steps = all.map(|rank| (rank, Step::Forget)).collect();
        (self.told, self.known_to_all) = (None, true);
        steps
    }

    /// Whether `has` holds for all other living members; `most` is for how many it can.
    fn all_of<S>(&self, gone: &BTreeSet<u32>, set: &S, has: impl Fn(&S, u32) -> bool, most: usize) -> bool {
        // Mostly not yet: that is found without a look at each.
        most + gone.len() + 1 >= self.members.len() && self.others(gone).all(|rank| has(set, rank))
    }

    fn vote(&mut self, coordinator: u32, gone: &BTreeSet<u32>) -> Steps {
        if self.voted_for == Some(coordinator) {
            return Vec::new();
        }
        self.voted_for = Some(coordinator);
        let (adopted, value) = match &self.adopted {
            Some((round, value)) => (Some(*round), value.clone()),
            None => (None, Agreed { gone: self.missing(gone).collect(), ..self.mine.clone() }),
        };
        vec![(coordinator, Step::Vote { adopted, value })]
    }

    /// Asks those for their votes that may have voted for another coordinator, once.
    fn ask(&mut self, gone: &BTreeSet<u32>) -> Steps {
        // The first coordinator is voted for by all.
        if self.asked || self.members.first() == Some(&self.me) {
            return Vec::new();
        }
        self.asked = true;
        self.asks(gone)
    }

    fn asks(&self, gone: &BTreeSet<u32>) -> Steps {
        let known: Vec<u32> = self.missing(gone).collect();
        let silent = self.others(gone).filter(|rank| !self.votes.contains_key(rank));
        silent.map(|rank| (rank, Step::Ask { gone: known.clone() })).collect()
    }

    /// What is said again to those that are waited for, so that one that is gone shows. Nothing changes by it.
    pub(super) fn again(&mut self, gone: &BTreeSet<u32>) -> Steps {
        if !self.has_begun() || self.decided.is_some() {
            return Vec::new();
        }
        match self.coordinator(gone) {
            Some(coordinator) if coordinator != self.me => {
                self.voted_for = None;
                self.vote(coordinator, gone)
            }
            _ => match (&self.proposed, &self.adopted) {
                (Some(acks), Some((_, value))) => {
                    let late = self.others(gone).filter(|rank| !acks.contains(rank));
                    late.map(|rank| (rank, Step::Propose(value.clone()))).collect()
                }
                _ => self.asks(gone),
            },
        }
    }

    /// What is proposed: what may have been decided, else what all want.
    fn choose(&self, gone: &BTreeSet<u32>) -> Agreed {
        let votes = || self.votes.iter().filter(|(rank, _)| !gone.contains(rank)).map(|(_, vote)| vote);
        let adopted = votes().filter_map(|(round, value)| round.map(|round| (round, value)));
        let ours = self.adopted.iter().map(|(round, value)| (*round, value));
        if let Some((_, value)) = adopted.chain(ours).max_by_key(|(round, _)| *round) {
            return value.clone();
        }
        let mut all: BTreeSet<u32> = self.missing(gone).collect();
        votes().for_each(|(_, value)| all.extend(&value.gone));
        let flags = votes().fold(self.mine.flags, |flags, (_, value)| flags & value.flags);
        Agreed { flags, gone: all.into_iter().collect(), ..self.mine.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// The next coordinator may have ended its world with the decision, so any that has it tells it.
    #[test]
    fn a_decision_is_told_on_where_the_rank_that_told_it_is_gone() {
        let none = BTreeSet::new();
        let mut rank = Agreement::default();
        rank.begin(2, vec![0, 1, 2, 3], (1, 7));
        rank.go_on(&none);
        rank.receive(0, Step::Propose(Agreed::default()), &none);
        rank.receive(0, Step::Decide(Agreed::default()), &none);
        rank.take();
        let tells = |steps: Steps| steps.into_iter().map(|(to, _)| to).collect::<Vec<_>>();
        assert_eq!(tells(rank.go_on(&BTreeSet::from([1]))), [], "rank 0 tells it");
        assert_eq!(tells(rank.go_on(&BTreeSet::from([0, 1]))), [3]);
        assert_eq!(tells(rank.go_on(&BTreeSet::from([0, 1]))), [], "once");
    }

    /// SplitMix64.
    struct Random(u64);

    impl Random {
        fn below(&mut self, n: usize) -> usize {
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            usize::try_from((z ^ (z >> 31)) % n as u64).unwrap()
        }
    }

    /// Members that die at random moments, each heard of at another moment by each other; messages arrive in any order, and a member
    /// that dies has sent any part of its last ones.
    struct Job {
        random: Random,
        members: Vec<Agreement>,
        /// What each takes for gone.
        gone: Vec<BTreeSet<u32>>,
        dead: BTreeSet<u32>,
        /// Ranks, with what is on its way to them.
        wire: Vec<(u32, u32, Step)>,
        to_begin: VecDeque<u32>,
        deaths: usize,
        decided: Vec<Option<Agreed>>,
    }

    impl Job {
        fn new(seed: u64, size: u32, deaths: usize) -> Self {
            let all = || 0..size as usize;
            let mut random = Random(seed);
            let mut order: Vec<u32> = (0..size).collect();
            for i in all().rev() {
                order.swap(i, random.below(i + 1));
            }
            Self {
                random,
                members: all().map(|_| Agreement::default()).collect(),
                gone: all().map(|_| BTreeSet::new()).collect(),
                dead: BTreeSet::new(),
                wire: Vec::new(),
                to_begin: order.into(),
                deaths,
                decided: all().map(|_| None).collect(),
            }
        }

        fn send(&mut self, from: u32, steps: Steps) {
            let i = from as usize;
            let mut all = steps;
            if self.deaths > 0 && self.random.below(20) == 0 {
                // It dies while it sends.
                self.deaths -= 1;
                all.truncate(self.random.below(all.len() + 1));
                self.dead.insert(from);
            }
            self.wire.extend(all.into_iter().map(|(to, step)| (from, to, step)));
            if let Some(value) = self.members[i].decided().cloned() {
                let known = self.decided[i].get_or_insert_with(|| value.clone());
                assert_eq!(*known, value, "a decision does not change");
            }
        }

        fn begin(&mut self) {
            let Some(rank) = self.to_begin.pop_front() else { return };
            if !self.dead.contains(&rank) {
                let i = rank as usize;
                let members = (0..u32::try_from(self.members.len()).unwrap()).rev().collect();
                self.members[i].begin(rank, members, (!(1 << rank), 100 + rank));
                let steps = self.members[i].go_on(&self.gone[i]);
                self.send(rank, steps);
            }
        }

        fn hear(&mut self, rank: u32, news: impl IntoIterator<Item = u32>) {
            let i = rank as usize;
            self.gone[i].extend(news);
            let steps = self.members[i].go_on(&self.gone[i]);
            self.send(rank, steps);
        }

        fn deliver(&mut self) {
            if self.wire.is_empty() {
                return;
            }
            let at = self.random.below(self.wire.len());
            let (from, to, step) = self.wire.swap_remove(at);
            let i = to as usize;
            if self.dead.contains(&to) || self.gone[i].contains(&from) {
                return;
            }
            if let Step::Vote { value: Agreed { gone, .. }, .. } | Step::Ask { gone } = &step {
                self.hear(to, gone.clone());
                if self.dead.contains(&to) {
                    return;
                }
            }
            let steps = self.members[i].receive(from, step, &self.gone[i]);
            self.send(to, steps);
        }

        fn living(&self) -> impl Iterator<Item = u32> + '_ {
            (0..u32::try_from(self.members.len()).unwrap()).filter(|rank| !self.dead.contains(rank))
        }

        /// Until nothing is left to be done.
        fn run(&mut self) {
            for turn in 0.. {
                assert!(turn < 100_000, "it ends");
                match self.random.below(4) {
                    0 => self.begin(),
                    1 => {
                        let rank = u32::try_from(self.random.below(self.members.len())).unwrap();
                        let news: Vec<u32> = self.dead.iter().copied().collect();
                        if !news.is_empty() && !self.dead.contains(&rank) {
                            let one = news[self.random.below(news.len())];
                            self.hear(rank, [one]);
                        }
                    }
                    _ => self.deliver(),
                }
                let told = self.living().all(|r| self.dead.is_subset(&self.gone[r as usize]));
                if self.to_begin.is_empty() && self.wire.is_empty() && told {
                    return;
                }
            }
        }
    }

    /// All that live agree, with each other and with those that decided before they died; and flags are those of all that live.
    #[test]
    fn the_living_agree_whichever_die_meanwhile() {
        for seed in 0..if cfg!(miri) { 20 } else { 20_000 } {
            let mut random = Random(seed);
            let size = 1 + random.below(16);
            let deaths = random.below(size);
            let mut job = Job::new(seed, u32::try_from(size).unwrap(), deaths);
            job.run();
            for rank in job.living().collect::<Vec<_>>() {
                let one = &mut job.members[rank as usize];
                one.take();
                assert!(one.is_over() || !job.dead.is_empty(), "seed {seed}: rank {rank} keeps it");
            }
            let mut decisions: Vec<&Agreed> = job.decided.iter().flatten().collect();
            for rank in job.living() {
                assert!(job.decided[rank as usize].is_some(), "seed {seed}: rank {rank} of {size} has none");
                assert_eq!(job.decided[rank as usize].as_ref().unwrap().flags >> rank & 1, 0, "seed {seed}");
            }
            decisions.dedup();
            assert!(decisions.len() <= 1, "seed {seed}: {decisions:?}");
            for value in decisions {
                assert!(value.gone.iter().all(|rank| job.dead.contains(rank)), "seed {seed}");
                // What one does not clear another that lived through it has not either.
                let cleared = (0..size).filter(|rank| value.flags >> rank & 1 == 0);
                assert!(cleared.count() >= job.living().count(), "seed {seed}");
            }
        }
    }

    /// What is lost on the way to a coordinator that dies is said again to the next.
    #[test]
    fn what_is_said_again_changes_nothing() {
        let mut pair = [Agreement::default(), Agreement::default()];
        let gone = BTreeSet::new();
        pair[1].begin(1, vec![0, 1], (6, 9));
        let vote = pair[1].go_on(&gone);
        assert_eq!(vote, pair[1].again(&gone));
        assert!(pair[1].go_on(&gone).is_empty(), "it has voted");
        pair[0].begin(0, vec![0, 1], (3, 7));
        assert!(pair[0].go_on(&gone).is_empty());
        let [(0, step)] = &vote[..] else { panic!("{vote:?}") };
        let proposal = pair[0].receive(1, step.clone(), &gone);
        assert_eq!(proposal, pair[0].again(&gone));
        let [(1, step)] = &proposal[..] else { panic!("{proposal:?}") };
        let adopted = pair[1].receive(0, step.clone(), &gone);
        assert_eq!(adopted, vec![(0, Step::Adopted)]);
        let decision = pair[0].receive(1, Step::Adopted, &gone);
        let [(1, step)] = &decision[..] else { panic!("{decision:?}") };
        assert_eq!(pair[1].receive(0, step.clone(), &gone), vec![(0, Step::Known)]);
        assert_eq!(pair[0].receive(1, Step::Known, &gone), vec![(1, Step::Forget)]);
        assert!(pair[1].receive(0, Step::Forget, &gone).is_empty());
        let agreed = Agreed { flags: 2, number: 7, proposer: 0, gone: vec![] };
        assert_eq!((pair[0].decided(), pair[1].decided()), (Some(&agreed), Some(&agreed)));
        for one in &mut pair {
            assert!(!one.is_over());
            one.take();
            assert!(one.is_over());
        }
    }
}
