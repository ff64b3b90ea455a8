//! A plan in the papers' own model: rounds in lock-step, each as long as its longest message.

use circulant::plan::{Kind, Plan};

/// What a plan does round by round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ledger {
    /// By round: bytes of the longest message; `None`: no rank puts.
    longest: Vec<Option<u64>>,
    /// By rank: bytes that it is put.
    received: Vec<u64>,
}

impl Ledger {
    pub(super) fn of(plan: &dyn Plan) -> Self {
        let mut ledger = Self { longest: Vec::new(), received: vec![0; plan.size() as usize] };
        for rank in 0..plan.size() {
            // A rank puts to one peer in a round: all pieces of the round are one message.
            let mut message: Option<(u32, u64)> = None;
            for step in plan.steps(rank).filter(|s| matches!(s.kind, Kind::Put | Kind::Notify)) {
                ledger.received[step.peer as usize] += step.len;
                message = match message {
                    Some((round, len)) if round == step.round => Some((round, len + step.len)),
                    before => {
                        ledger.sent(before);
                        Some((step.round, step.len))
                    }
                };
            }
            ledger.sent(message);
        }
        ledger
    }

    fn sent(&mut self, message: Option<(u32, u64)>) {
        let Some((round, len)) = message else { return };
        let round = round as usize;
        if self.longest.len() <= round {
            self.longest.resize(round + 1, None);
        }
        self.longest[round] = self.longest[round].max(Some(len));
    }

    /// The rounds up to the last in which anything is put.
    pub(super) fn rounds(&self) -> u32 {
        u32::try_from(self.longest.len()).unwrap_or(u32::MAX)
    }

    /// Σ (α + β·longest message), in the unit of α and β.
    pub(super) fn time(&self, alpha: f64, beta: f64) -> f64 {
        self.longest.iter().flatten().map(|&len| alpha + beta * len as f64).sum()
    }

    pub(super) fn received(&self) -> &[u64] {
        &self.received
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use circulant::plan::bcast::circulant::Bcast;

    #[test]
    fn a_broadcast_in_lock_step() {
        let ledger = Ledger::of(&Bcast::new(8, 0, 5120, 5).unwrap());
        assert_eq!(ledger.rounds(), 5 - 1 + 3);
        assert_eq!(ledger.time(10.0, 2.0), 7.0 * (10.0 + 2.0 * 1024.0));
        assert_eq!(ledger.received(), [0, 5120, 5120, 5120, 5120, 5120, 5120, 5120]);
    }
}
