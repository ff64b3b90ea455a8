//! The choice of an algorithm: what a call, a setting or a file names, or else the lowest price.
//!
//! Every rank must come to the same choice. So only what all ranks know alike enters: settings that were agreed
//! at start-up, the figures of the wire, and the arguments that [`agreed`] leaves.

use super::memory::Bound;
use super::rules::{Rule, parse};
use super::{Figures, Settings};
use crate::error::{Error, ErrorKind, Result, argument};
use crate::machine::{Cores, Groups, Machine};
use crate::plan::by_rank::ByRank;
use crate::plan::registry::cost::Cost;
use crate::plan::registry::{Algorithm, Arguments, Operation, algorithm, algorithms};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

/// How many choices are remembered. Chosen: more than the calls that a program repeats; a choice anew takes 0.5 to 20
/// µs (docs/design.md, "An algorithm is chosen by its price"). `more_arguments_than_are_remembered` shows that what is
/// forgotten is chosen alike again.
const MAX_REMEMBERED_CHOICES: usize = 32;

/// Why an algorithm has no price.
const SHARED_ONLY: &str = "is chosen only where all ranks share memory of our own";

/// As many counts, in all choices that are remembered: of 8 bytes each, so 16 MiB. Chosen, to bound the memory of
/// irregular calls among very many ranks.
const MAX_REMEMBERED_COUNTS: usize = 1 << 21;

/// Chooses algorithms. The same arguments on every rank give the same choice on every rank.
#[derive(Debug)]
pub struct Selection {
    machine: Machine,
    /// What the setting `algorithm` names: for one operation, or (`None`) for all that have it.
    named: Vec<(Option<Operation>, String)>,
    rules: Vec<Rule>,
    reproducible: bool,
    memo: RefCell<Memo>,
}

/// The last choices.
#[derive(Debug, Default)]
struct Memo {
    entries: Vec<Entry>,
    next: usize,
}

/// Operation, reproducible, by the algorithm of this name, by the file's rules too.
type How = (Operation, bool, Option<&'static str>, bool);

#[derive(Debug)]
struct Entry {
    how: How,
    arguments: Arguments,
    chosen: Choice,
}

/// How a call is done.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// The registry's line.
    pub algorithm: &'static Algorithm,
    /// Blocks per message, where neither the call nor a setting says how many; `None`: by the rule.
    pub blocks: Option<u32>,
}

impl Way {
    /// By this algorithm; where blocks are the messages of a hop, in as many as are cheapest.
    pub(super) fn new(algorithm: &'static Algorithm, arguments: &Arguments, machine: &Machine) -> Self {
        let blocks = algorithm.blocks_on(arguments, machine).filter(|_| arguments.blocks.is_none());
        Self { algorithm, blocks }
    }
}

impl PartialEq for Way {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.algorithm, other.algorithm) && self.blocks == other.blocks
    }
}

/// A way, and what it was chosen by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// How the call is done.
    pub way: Way,
    /// By its price: neither the call, nor a setting, nor the file says anything.
    pub is_priced: bool,
}

/// A candidate for a call.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The registry's line.
    pub algorithm: &'static Algorithm,
    /// What it costs, or why it cannot be taken.
    pub cost: std::result::Result<Cost, String>,
}

impl Selection {
    /// What the settings say, on a wire with these figures.
    ///
    /// # Errors
    /// When a setting or a line of the file cannot be understood.
    pub fn new(settings: &Settings, figures: &Figures) -> Result<Self> {
        Self::of(settings, figures.machine())
    }

    /// The same on any machine.
    ///
    /// # Errors
    /// When a setting or a line of the file cannot be understood.
    pub fn of(settings: &Settings, machine: Machine) -> Result<Self> {
        Ok(Self {
            machine,
            named: names(&settings.algorithm)?,
            rules: parse(&settings.rules)?,
            reproducible: settings.reproducible,
            memo: RefCell::default(),
        })
    }

    /// Takes other figures; the ranks stay where they are.
    pub fn retune(&mut self, figures: &Figures) {
        let Machine { per_node, cores, groups, .. } = self.machine;
        self.machine = Machine { per_node, cores, groups, ..figures.machine() };
        self.memo.take();
    }

    /// Tells how many cores all ranks share, as all know alike; 0: no rank knows.
    pub fn share(&mut self, cores: u32) {
        self.machine.cores = Cores::shared(cores);
        self.memo.take();
    }

    /// Tells where the ranks are: by rank its node, and the group of that, which nothing says where the network is not divided. Links
    /// between groups are tapered 1:`taper`.
    pub fn place(&mut self, nodes: &[u32], groups: &[u32], taper: u32) {
        self.machine.per_node = most_alike(nodes.iter().copied());
        let mut seen = HashSet::new();
        let firsts = nodes.iter().zip(groups).filter(|(node, _)| seen.insert(**node));
        let nodes = most_alike(firsts.map(|(_, group)| *group));
        self.machine.groups = if nodes == 0 { Groups::NONE } else { Groups { nodes, taper, latency_ns: 0 } };
        self.memo.take();
    }

    /// The way of a call: by the algorithm that is `name`d by it, or by the settings, or by the file, or the cheapest.
    ///
    /// # Errors
    /// When there is no algorithm of that name, or it cannot do the call; the message says which can.
    pub fn choose(
        &self,
        operation: Operation,
        arguments: &Arguments,
        name: Option<&str>,
        reproducible: bool,
    ) -> Result<Choice> {
        let reproducible = (reproducible || self.reproducible) && operation.reduces();
        let named = |name: &str| {
            let algorithm = self.named(operation, arguments, name, reproducible)?;
            let way = Way { algorithm, blocks: None };
            if algorithm.messages.is_none() {
                return Ok(Choice { way, is_priced: false });
            }
            self.remembered((operation, reproducible, Some(algorithm.name), false), arguments, |arguments| {
                Ok(Choice { way: Way::new(algorithm, arguments, &self.machine), is_priced: false })
            })
        };
        match name {
            Some("auto") => return self.decide(operation, arguments, reproducible, false),
            Some(name) => return named(name),
            None => {}
        }
        for (only, name) in &self.named {
            let meant = match only {
                Some(only) => *only == operation,
                None => algorithms(operation).any(|a| a.name == name),
            };
            if meant && name != "auto" {
                return named(name);
            }
            if meant {
                return self.decide(operation, arguments, reproducible, false);
            }
        }
        self.decide(operation, arguments, reproducible, true)
    }

    /// Whether the settings or the file name an algorithm for some calls of this operation.
    pub fn names(&self, operation: Operation) -> bool {
        let named = self.named.iter().any(|(only, name)| match only {
            Some(only) => *only == operation,
            None => algorithms(operation).any(|a| a.name == name),
        });
        named || self.rules.iter().any(|rule| rule.operation.is_none_or(|only| only == operation))
    }

    /// All algorithms of an operation with their prices.
    pub fn candidates(
        &self,
        operation: Operation,
        arguments: &Arguments,
        reproducible: bool,
    ) -> Vec<Candidate> {
        let arguments = agreed(operation, arguments);
        let reproducible = (reproducible || self.reproducible) && operation.reduces();
        let candidate = |algorithm| {
            let cost = match refused(algorithm, &arguments, reproducible) {
                Some(e) => Err(e.message().to_owned()),
                None => self.priced(operation, algorithm, &arguments),
            };
            Candidate { algorithm, cost }
        };
        algorithms(operation).map(candidate).collect()
    }

    /// What an algorithm that can do a call costs, or why it is not chosen although it can.
    fn priced(
        &self,
        operation: Operation,
        algorithm: &Algorithm,
        arguments: &Arguments,
    ) -> std::result::Result<Cost, String> {
        let cost = algorithm.cost(arguments, &self.machine);
        match Bound::USUAL.exceeded(algorithm, operation, arguments, &self.machine) {
            _ if !cost.ns.is_finite() => Err(SHARED_ONLY.to_owned()),
            Some(excess) if algorithms(operation).any(|other| !other.all_pairs) => {
                Err(format!("is chosen only where it is named: {excess}"))
            }
            _ => Ok(cost),
        }
    }

    /// Whether an algorithm can do a call.
    pub fn can(&self, way: &Way, arguments: &Arguments) -> bool {
        refused(way.algorithm, arguments, false).is_none()
    }

    /// Whether reductions and scans fold in one order by a setting.
    pub fn is_reproducible(&self) -> bool {
        self.reproducible
    }

    /// The machine of the prices.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// An algorithm that a setting or the call names.
    fn named(
        &self,
        operation: Operation,
        arguments: &Arguments,
        name: &str,
        reproducible: bool,
    ) -> Result<&'static Algorithm> {
        let found = algorithm(operation, name)?;
        let Some(e) = refused(found, arguments, reproducible) else { return Ok(found) };
        let fits = |a: &&Algorithm| refused(a, arguments, reproducible).is_none();
        let others: Vec<_> = algorithms(operation).filter(fits).map(|a| a.name).collect();
        let said = format!("{operation} cannot be done by {name:?} here: {}", e.message());
        Err(argument(said).help(format!("auto would do, and {}", others.join(", "))))
    }

    /// By the file's rules, if they are asked and one applies, else by price. Remembers what it decided.
    fn decide(
        &self,
        operation: Operation,
        arguments: &Arguments,
        reproducible: bool,
        ruled: bool,
    ) -> Result<Choice> {
        self.remembered((operation, reproducible, None, ruled), arguments, |arguments| {
            if let Some(way) = self.by_rule(operation, arguments, reproducible).filter(|_| ruled) {
                return Ok(Choice { way, is_priced: false });
            }
            let algorithm = cheapest(operation, arguments, &self.machine, reproducible)?;
            Ok(Choice { way: Way::new(algorithm, arguments, &self.machine), is_priced: true })
        })
    }

    /// What was chosen for such a call, or is now, of what all ranks know alike of it.
    fn remembered(
        &self,
        how: How,
        arguments: &Arguments,
        choose: impl FnOnce(&Arguments) -> Result<Choice>,
    ) -> Result<Choice> {
        let mut memo = self.memo.borrow_mut();
        let known = memo.entries.iter().find(|e| e.how == how && same(how.0, &e.arguments, arguments));
        if let Some(known) = known {
            return Ok(known.chosen);
        }
        let arguments = agreed(how.0, arguments);
        let chosen = choose(&arguments)?;
        let counts = |entries: &[Entry]| entries.iter().map(|e| e.arguments.counts.len()).sum::<usize>();
        if counts(&memo.entries) + arguments.counts.len() > MAX_REMEMBERED_COUNTS {
            memo.entries.clear();
        }
        let (at, entry) = (memo.next % MAX_REMEMBERED_CHOICES, Entry { how, arguments, chosen });
        memo.next += 1;
        match memo.entries.get_mut(at) {
            Some(old) => *old = entry,
            None => memo.entries.push(entry),
        }
        Ok(chosen)
    }

    fn by_rule(&self, operation: Operation, arguments: &Arguments, reproducible: bool) -> Option<Way> {
        let fitting = self.rules.iter().filter(|r| r.fits(operation, arguments, self.machine.per_node));
        for rule in fitting {
            if rule.algorithm == "auto" {
                return None;
            }
            let found = algorithms(operation).find(|a| a.name == rule.algorithm);
            let found = found.filter(|a| refused(a, arguments, reproducible).is_none());
            if let Some(algorithm) = found {
                let way = Way::new(algorithm, arguments, &self.machine);
                return Some(Way { blocks: rule.blocks.or(way.blocks), ..way });
            }
        }
        None
    }
}

/// How often the number that occurs most does.
fn most_alike(numbers: impl Iterator<Item = u32>) -> u32 {
    let mut times = HashMap::new();
    for number in numbers {
        *times.entry(number).or_insert(0u32) += 1;
    }
    times.into_values().max().unwrap_or(0)
}

/// The one of the lowest price; of equal ones the first in the registry.
fn cheapest(
    operation: Operation,
    arguments: &Arguments,
    machine: &Machine,
    reproducible: bool,
) -> Result<&'static Algorithm> {
    let fits =
        |a: &&'static Algorithm| is_alike(a, arguments) && refused(a, arguments, reproducible).is_none();
    let fitting = uncrowded(operation, arguments, machine, fits);
    let priced = fitting.into_iter().map(|a| (a, a.cost(arguments, machine).ns));
    let found = priced.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(a, _)| a);
    found.ok_or_else(|| argument(format!("{operation} has no algorithm for this")))
}

/// Those that fit, but for those whose connections would take too much memory; if all would, all of them.
pub(super) fn uncrowded(
    operation: Operation,
    arguments: &Arguments,
    machine: &Machine,
    fits: impl Fn(&&'static Algorithm) -> bool,
) -> Vec<&'static Algorithm> {
    let fitting: Vec<_> = algorithms(operation).filter(fits).collect();
    let is_within =
        |a: &&&'static Algorithm| Bound::USUAL.exceeded(a, operation, arguments, machine).is_none();
    let few: Vec<_> = fitting.iter().filter(is_within).copied().collect();
    let is_enough =
        few.len() == fitting.len() || few.iter().any(|a| a.cost(arguments, machine).ns.is_finite());
    if is_enough { few } else { fitting }
}

/// Whether all ranks get the same bits. Different ones of one sum are a surprise: such an algorithm is taken only where it is named.
pub(super) fn is_alike(a: &Algorithm, arguments: &Arguments) -> bool {
    arguments.exact || a.order.is_none_or(|order| order.identical)
}

/// Why an algorithm cannot be taken.
pub(super) fn refused(a: &Algorithm, arguments: &Arguments, reproducible: bool) -> Option<Error> {
    if reproducible && !arguments.exact && !a.order.is_some_and(|order| order.canonical) {
        let name = a.name;
        return Some(argument(format!("{name:?} does not fold in the tree that `reproducible` asks for")));
    }
    (a.fits)(arguments).err()
}

/// The arguments that all ranks know alike: without what only the root is told, or each rank for itself.
pub(super) fn agreed(operation: Operation, a: &Arguments) -> Arguments {
    let mut known = a.clone();
    known.displs.clear();
    known.rows = ByRank::default();
    known.graph.edges = ByRank::default();
    known.in_place &= operation.is_in_place_everywhere();
    if !operation.has_counts() {
        known.counts.clear();
    }
    known
}

/// Whether `known`, which is [`agreed`], stands for `a`; without a copy.
fn same(operation: Operation, known: &Arguments, a: &Arguments) -> bool {
    let plain =
        |a: &Arguments| (a.size, a.first, a.root, a.bytes, a.element, (a.commutative, a.exact), a.blocks);
    let graph = |a: &Arguments| a.graph.multiplicity;
    graph(known) == graph(a)
        && plain(known) == plain(a)
        && (&known.nodes, &known.groups) == (&a.nodes, &a.groups)
        && known.in_place == (a.in_place && operation.is_in_place_everywhere())
        && (!operation.has_counts() || known.counts == a.counts)
}

/// The setting `algorithm`: a name for all operations that have it, or `operation=name`, separated by commas.
fn names(text: &str) -> Result<Vec<(Option<Operation>, String)>> {
    let wrong = |e: &str| Error::new(ErrorKind::Config, format!("CIRCULANT_ALGORITHM: {e}"));
    let mut out = Vec::new();
    for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let help = "a name, as in circulant, or a list, as in bcast=chain,allreduce=ring; circulant algorithms \
                    lists them";
        match item.split_once('=') {
            Some((operation, name)) => {
                let operation = operation.trim().parse::<Operation>();
                let operation = operation.map_err(|e| wrong(e.message()).help(help))?;
                algorithm(operation, name.trim()).map_err(|e| wrong(e.message()).help(help))?;
                // Before what is said of all.
                out.insert(0, (Some(operation), name.trim().to_owned()));
            }
            None if item == "auto" => {}
            None if Operation::ALL.iter().any(|op| algorithms(*op).any(|a| a.name == item)) => {
                out.push((None, item.to_owned()));
            }
            None => return Err(wrong(&format!("no operation has an algorithm {item:?}")).help(help)),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::LogGp;

    const WIRE: LogGp = LogGp { latency_ns: 50_000, overhead_ns: 5_000, byte_ps: 800, reduce_ps: 100 };

    fn selection(set: &[(&str, &str)]) -> Result<Selection> {
        let mut settings = Settings::default();
        for (name, value) in set {
            match *name {
                "algorithm" => settings.algorithm = (*value).to_owned(),
                "rules" => settings.rules = (*value).to_owned(),
                _ => settings.reproducible = true,
            }
        }
        Selection::of(&settings, Machine::flat(WIRE))
    }

    fn name(s: &Selection, op: Operation, a: &Arguments, named: Option<&str>) -> String {
        s.choose(op, a, named, false)
            .map_or_else(|e| e.to_string(), |chosen| chosen.way.algorithm.name.to_owned())
    }

    #[test]
    fn the_call_goes_before_the_setting_before_the_file_before_the_price() {
        let text = "bcast size=9 -> hypercube\nbcast bytes<100 -> mesh\nreduce commutative=no -> binomial";
        let file = ("rules", text);
        let a = Arguments { size: 9, bytes: 8, ..Arguments::default() };
        let bcast = Operation::Bcast;
        let priced = name(&selection(&[]).unwrap(), bcast, &a, None);
        assert!(!["mesh", "chain"].contains(&priced.as_str()), "{priced}");
        let filed = selection(&[file]).unwrap();
        // What a rule names but cannot be done is passed over.
        assert_eq!(name(&filed, bcast, &a, None), "mesh");
        assert_eq!(name(&filed, bcast, &a, Some("auto")), priced);
        let long = Arguments { bytes: 100_000, ..a.clone() };
        assert_eq!(name(&filed, Operation::Reduce, &long, None), "ordered");
        let set = selection(&[file, ("algorithm", "binomial,bcast=chain")]).unwrap();
        assert_eq!(name(&set, bcast, &a, None), "chain");
        assert_eq!(name(&set, bcast, &a, Some("scatter_allgather")), "scatter_allgather");
        assert_eq!(name(&set, Operation::Gather, &a, None), "binomial");
        assert_eq!(name(&set, Operation::Barrier, &a, None), "n-way");
    }

    #[test]
    fn what_is_named_and_cannot_be_done_is_an_error_that_names_what_can() {
        let s = selection(&[]).unwrap();
        let a = Arguments { size: 9, bytes: 8, ..Arguments::default() };
        let said = name(&s, Operation::Bcast, &a, Some("hypercube"));
        assert!(
            said.contains("\"hypercube\" here: 9 ranks are no hypercube") && said.contains("chain"),
            "{said}"
        );
        let said = name(&s, Operation::Allreduce, &a, Some("ring"));
        assert!(said.contains("commute") && said.contains("doubling, multiplying, ordered"), "{said}");
        let said = s.choose(Operation::Allreduce, &a, Some("doubling"), true).unwrap_err().to_string();
        assert!(said.contains("reproducible") && said.contains("ordered"), "{said}");
        let said = name(&s, Operation::Bcast, &a, Some("magic"));
        assert!(said.contains("has no algorithm \"magic\"; one of auto, circulant"), "{said}");
        for wrong in ["magic", "bcast=ring", "bcats=ring", "bcast="] {
            let e = selection(&[("algorithm", wrong)]).unwrap_err().to_string();
            assert!(e.contains("CIRCULANT_ALGORITHM"), "{e}");
        }
    }

    #[test]
    fn reproducible_takes_canonical_lines_only() {
        let set = selection(&[("reproducible", "yes")]).unwrap();
        let free = selection(&[]).unwrap();
        for op in Operation::ALL {
            for bytes in [8, 1 << 20] {
                let counts = vec![bytes; 8];
                let a = Arguments {
                    size: 8,
                    bytes,
                    counts,
                    element: 8,
                    commutative: true,
                    ..Arguments::default()
                };
                let canonical = |a: &Algorithm| a.order.is_some_and(|o| o.canonical);
                for chosen in [set.choose(op, &a, None, false), free.choose(op, &a, None, true)] {
                    assert!(!op.reduces() || canonical(chosen.unwrap().way.algorithm), "{op}");
                }
                let candidates = set.candidates(op, &a, false);
                assert!(
                    candidates.iter().all(|c| c.cost.is_err() || !op.reduces() || canonical(c.algorithm))
                );
            }
        }
    }

    /// What only one rank knows changes nothing, also with what is remembered.
    #[test]
    fn ranks_that_know_more_choose_alike() {
        let s = selection(&[]).unwrap();
        for op in Operation::ALL {
            let counts = vec![1000; 6];
            let a = Arguments {
                size: 6,
                first: 3,
                bytes: 1000,
                counts,
                commutative: true,
                ..Arguments::default()
            };
            let mut knows = Arguments { displs: vec![3; 6], ..a.clone() };
            knows.rows.insert(3, Default::default());
            knows.graph.edges.insert(3, Default::default());
            knows.in_place = !op.is_in_place_everywhere();
            assert_eq!(agreed(op, &a), agreed(op, &knows));
            let chosen = name(&s, op, &knows, None);
            assert_eq!(chosen, name(&s, op, &a, None));
            assert_eq!(chosen, name(&selection(&[]).unwrap(), op, &a, None));
            assert_eq!(s.memo.borrow().entries.iter().filter(|e| e.how.0 == op).count(), 1);
        }
    }

    #[test]
    fn more_arguments_than_are_remembered() {
        let s = selection(&[]).unwrap();
        for round in 0..2 {
            for bytes in 1..100 {
                let a = Arguments { size: 6, bytes: bytes * bytes * 100, ..Arguments::default() };
                let fresh = name(&selection(&[]).unwrap(), Operation::Bcast, &a, None);
                assert_eq!(name(&s, Operation::Bcast, &a, None), fresh, "round {round}");
            }
        }
        assert_eq!(s.memo.borrow().entries.len(), MAX_REMEMBERED_CHOICES);
    }
}
