//! Covering arrays: few cases in which every pair of values of two factors meets.

/// SplitMix64: the same numbers everywhere.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        super::mix(self.0)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.draw() % n.max(1) as u64) as usize
    }

    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, self.below(i + 1));
        }
    }
}

/// Cases (a value per factor) in which every pair of values meets that `possible(factor, value, factor, value)`
/// allows, the first factor being the lower one. Greedy, so few, not fewest.
pub fn cover(
    sizes: &[usize],
    possible: impl Fn(usize, usize, usize, usize) -> bool,
    random: &mut Random,
) -> Vec<Vec<usize>> {
    let n = sizes.len();
    let both = |f: usize, v: usize, g: usize, w: usize| {
        if f < g { possible(f, v, g, w) } else { possible(g, w, f, v) }
    };
    let mut todo = Vec::new();
    // open[f][g][v * sizes[g] + w]
    let mut open = vec![vec![Vec::new(); n]; n];
    for f in 0..n {
        for g in 0..n {
            let pairs = (0..sizes[f]).flat_map(|v| (0..sizes[g]).map(move |w| (v, w)));
            open[f][g] = pairs.clone().map(|(v, w)| f != g && both(f, v, g, w)).collect();
            if f < g {
                todo.extend(pairs.map(|(v, w)| (f, v, g, w)));
            }
        }
    }
    random.shuffle(&mut todo);
    let mut cases = Vec::new();
    for (f, v, g, w) in todo {
        if !open[f][g][v * sizes[g] + w] {
            continue;
        }
        let mut chosen = vec![(f, v), (g, w)];
        let mut rest: Vec<usize> = (0..n).filter(|h| *h != f && *h != g).collect();
        random.shuffle(&mut rest);
        for h in rest {
            let start = random.below(sizes[h]);
            let values = (0..sizes[h]).map(|i| (start + i) % sizes[h]);
            let gain = |x: usize| chosen.iter().filter(|(f, v)| open[*f][h][v * sizes[h] + x]).count();
            let fitting = values.filter(|x| chosen.iter().all(|(f, v)| both(*f, *v, h, *x)));
            let best = fitting
                .max_by_key(|x| gain(*x))
                .unwrap_or_else(|| panic!("no value of {h} beside {chosen:?}"));
            chosen.push((h, best));
        }
        for (f, v) in &chosen {
            for (g, w) in &chosen {
                open[*f][*g][v * sizes[*g] + w] = false;
            }
        }
        chosen.sort_unstable();
        cases.push(chosen.into_iter().map(|(_, v)| v).collect());
    }
    cases
}

/// Whether every possible pair meets in some case: what [`cover`] promises, counted another way.
pub fn covers(
    sizes: &[usize],
    possible: impl Fn(usize, usize, usize, usize) -> bool,
    cases: &[Vec<usize>],
) -> bool {
    let mut met = std::collections::HashSet::new();
    for case in cases {
        for f in 0..sizes.len() {
            for g in f + 1..sizes.len() {
                met.insert((f, case[f], g, case[g]));
            }
        }
    }
    (0..sizes.len()).all(|f| {
        (f + 1..sizes.len()).all(|g| {
            (0..sizes[f]).all(|v| (0..sizes[g]).all(|w| met.contains(&(f, v, g, w)) == possible(f, v, g, w)))
        })
    })
}
