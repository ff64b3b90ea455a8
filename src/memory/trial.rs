//! Which of two ways is faster, by the clock: the one that is taken is timed now and then, and the other one is tried beside it, ever more rarely while it is slower.

/// Counts uses of the way that is taken, and of the other one while it is tried, and keeps the least cost of either.
#[derive(Debug)]
pub(crate) struct Trial {
    /// Uses that are timed before a trial, and those of a trial. The first of a trial meets what the other way has left in the caches, and does not count.
    before: u32,
    during: u32,
    /// Uses since the last trial, and how many there are to be before the next.
    uses: u32,
    rest: u32,
    /// The least cost of the uses before a trial, and of those in it.
    usual: u64,
    tried: u64,
}

impl Trial {
    /// The first trial comes after `before` uses, which are timed, and has `during`.
    pub(crate) const fn new(before: u32, during: u32) -> Self {
        Self { before, during, uses: 0, rest: before, usual: u64::MAX, tried: u64::MAX }
    }

    /// Whether the next use is to be [timed](Trial::timed). One that is not is over with this.
    pub(crate) fn next(&mut self) -> bool {
        let timed = self.uses + self.before >= self.rest;
        self.uses += u32::from(!timed);
        timed
    }

    /// Whether the next use goes the other way.
    pub(crate) fn is_on(&self) -> bool {
        self.uses >= self.rest
    }

    /// The use that was to be timed cost so much. At the end of a trial this tells whether the other way is faster.
    pub(crate) fn timed(&mut self, cost: u64) -> Option<bool> {
        if !self.is_on() {
            self.usual = self.usual.min(cost);
        } else if self.uses > self.rest {
            self.tried = self.tried.min(cost);
        }
        self.uses += 1;
        if self.uses < self.rest + self.during {
            return None;
        }
        // An eighth less: what is about even stays as it is.
        let faster = self.tried < self.usual - self.usual / 8;
        self.begin();
        Some(faster)
    }

    fn begin(&mut self) {
        (self.uses, self.usual, self.tried) = (0, u64::MAX, u64::MAX);
    }

    /// Puts the next trial off: first come `uses` uses that are not timed, then those that are timed before a trial.
    pub(crate) fn put_off(&mut self, uses: u32) {
        self.begin();
        self.rest = uses + self.before;
    }

    /// How many uses come between the last trial and the next.
    pub(crate) fn rest(&mut self) -> &mut u32 {
        &mut self.rest
    }
}
